// The part of HostExecutor that says how far the call in flight has come with each peer. Only slow
// paths come here, so running a call counts nothing: what has arrived follows from where the lanes
// stand and from what they would wait for.
#include <algorithm>

#include "src/exec/host_executor.h"
#include "src/exec/stall.h"

namespace tutti::exec {

using plan::Exchange;
using plan::OpCode;

// The receives of a slice are posted together, behind its credit.
bool HostExecutor::has_posted(const Lane& lane) const {
  if (!lane.open || lane.op >= plan_->ops.size()) return lane.open;
  const OpCode code = plan_->ops[lane.op].code;
  return code != OpCode::kCredit && code != OpCode::kStreamReceive;
}

// Of the slice that its lane is in. A message of mine counts when its receiver needs nothing
// further of this rank, one to me when I need nothing further of its sender.
bool HostExecutor::is_complete(const plan::Plan& plan, const Exchange& exchange) const {
  const Lane& lane = lanes_[exchange.lane];
  const Peer& peer = peers_[exchange.peer];
  const plan::LanePlan& lane_plan = plan.lanes[exchange.lane];
  if (!lane.open) return false;
  if (exchange.near != nullptr && lane_plan.cells > 0) {
    const ArenaView& sender = exchange.sends ? mine_ : peer.arena;
    const std::byte* cell =
        sender.cells() + cell_shift_ + uint64_t{exchange.near->cell} * plan::kCellStride;
    return reinterpret_cast<const Flag*>(cell)->load(std::memory_order_acquire) ==
           cell_flag(lane.progress + 1);
  }
  const bool passed = lane.op >= lane_plan.end || plan.ops[lane.op].index > exchange.step;
  if (exchange.near != nullptr) {
    if (passed || exchange.sends) return passed;
    const uint64_t told =
        peer.arena.counter(exchange.lane).progress.load(std::memory_order_acquire);
    return told >= lane.progress + exchange.near->value;
  }
  if (exchange.sends) return passed && peer.stream->sent(lane.sent[exchange.ordinal]);
  return has_posted(lane) && peer.stream->received(lane.received[exchange.ordinal]);
}

void HostExecutor::add_to_tally(const plan::Plan& plan, const Exchange& exchange) {
  const uint64_t slice = lanes_[exchange.lane].slice;
  const bool more = slice < plan.slices && is_complete(plan, exchange);
  const uint64_t complete = slice + (more ? 1 : 0);
  Tally& tally = tally_[2 * size_t{exchange.peer} + (exchange.sends ? 1 : 0)];
  tally.messages += static_cast<uint32_t>(plan.slices);
  tally.complete += static_cast<uint32_t>(complete);
  for (const schedule::Block block : exchange.blocks) {
    const uint64_t length = plan.layout.length(plan.match->schedule, block);
    tally.bytes += length * plan.element_bytes;
    tally.moved +=
        schedule::piece(length, complete, plan.slices, plan.quantum).offset * plan.element_bytes;
  }
}

void HostExecutor::tell_progress() {
  if (plan_ == nullptr && call_.signature == 0) {
    if (source_ != nullptr) source_->tell_progress(*options_.recorder, *stall_);
    return;
  }
  if (plan_ == nullptr || plan_->match == nullptr) return;
  std::fill(tally_.begin(), tally_.end(), Tally{});
  plan::each_exchange(*plan_->match,
                      [&](const Exchange& exchange) { add_to_tally(*plan_, exchange); });
  tell_lines();
}

// What is awaited comes first, as there may not be room for all.
void HostExecutor::tell_lines() {
  trace::Recorder& recorder = *options_.recorder;
  const auto lines = std::count_if(tally_.begin(), tally_.end(),
                                   [](const Tally& tally) { return tally.messages > 0; });
  const uint32_t room = recorder.open_lines(static_cast<uint64_t>(lines));
  uint32_t line = 0;
  for (const bool complete : {false, true}) {
    for (uint32_t i = 0; i < tally_.size() && line < room; ++i) {
      const Tally& tally = tally_[i];
      if (tally.messages == 0 || (tally.complete == tally.messages) != complete) continue;
      trace::Exchange exchange{.peer = i / 2, .sends = i % 2 == 1};
      exchange.bytes = tally.bytes;
      exchange.moved = tally.moved;
      exchange.messages = tally.messages;
      exchange.complete = tally.complete;
      stall_->describe_peer(exchange);
      recorder.set_line(line++, exchange);
    }
  }
}

}  // namespace tutti::exec
