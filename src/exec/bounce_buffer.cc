#include "src/exec/bounce_buffer.h"

#include <algorithm>
#include <map>
#include <new>

namespace tutti::exec {
namespace {

constexpr uint64_t in_lines(uint64_t bytes) {
  return (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
}

/// Bytes of the longest piece of a block that a slice of any lane has.
class LongestPieces {
 public:
  explicit LongestPieces(const plan::Plan& plan) : plan_(plan) {}

  uint64_t of(uint64_t length) {
    const auto [known, is_new] = known_.emplace(length, 0);
    if (!is_new) return known->second;
    uint64_t most = 0;
    for (uint32_t lane = 0; lane < plan_.lanes.size(); ++lane) {
      for (uint64_t slice = 0; slice < plan::slices_of(plan_, lane); ++slice) {
        most = std::max(most, plan::piece_of(plan_, lane, slice, length).length);
      }
    }
    return known->second = most * plan_.element_bytes;
  }

 private:
  const plan::Plan& plan_;
  std::map<uint64_t, uint64_t> known_;
};

}  // namespace

void NetworkPlan::begin(std::byte* memory) const {
  new (memory) BounceWords{};
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void NetworkPlan::let_go(std::byte* memory) const {
  for (BounceWords::BounceLaneWords& lane : in(memory).words->lanes) {
    lane.arrived.value.store(kBeyondAllMessages, std::memory_order_release);
    lane.sent.value.store(kBeyondAllMessages, std::memory_order_release);
  }
}

BounceLayout::BounceLayout(const plan::Plan& plan)
    : plan_(plan), sends_(in_lines(plan::all_landing_bytes(plan))), places_(plan.ops.size(), 0) {
  LongestPieces longest(plan);
  const plan::LanePlan& lane = plan.lanes.front();  // lanes that take turns have the same
  uint64_t end = 0;
  for (uint32_t i = lane.begin; i < lane.end; ++i) {
    const plan::Op& op = plan.ops[i];
    if (op.code != plan::OpCode::kStreamSend) continue;
    if (repeats(i)) {
      places_[i] = places_[i - 1];
      continue;
    }
    places_[i] = end;
    for (uint32_t k = 0; k < op.source_count; ++k) end += longest.of(plan.lengths[op.lengths + k]);
    end = in_lines(end);
  }
  send_bytes_ = end;
  bytes_ = sends_ + plan.lanes.size() * send_bytes_;
}

bool BounceLayout::repeats(uint32_t op) const {
  if (op == 0) return false;
  const plan::Op &before = plan_.ops[op - 1], &mine = plan_.ops[op];
  return before.code == plan::OpCode::kStreamSend && before.index == mine.index &&
         before.source_count == mine.source_count;
}

}  // namespace tutti::exec
