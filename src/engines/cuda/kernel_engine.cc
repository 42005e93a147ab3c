#include "src/engines/cuda/kernel_engine.h"

#include <utility>

#include "src/base/clock.h"

namespace tutti::engines::cuda {
namespace {

uint64_t time_left(uint64_t deadline_ns) {
  const uint64_t now_ns = monotonic_ns();
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

FusedCall buffers_of(const exec::StreamedCall& call) {
  return {.send = reinterpret_cast<uint64_t>(call.call.send),
          .recv = reinterpret_cast<uint64_t>(call.call.recv),
          .factor = call.factor ? &*call.factor : nullptr,
          .signature = call.call.signature,
          .most_blocks = call.most_ctas};
}

CUstream stream_of(const exec::StreamedCall& call) {
  return static_cast<CUstream>(call.where.stream);
}

}  // namespace

// The watch ends what is late. The kernel knows its deadline as well, should the host be held up.
Result<std::vector<uint64_t>> KernelEngine::put(const exec::StreamedCall& call, uint64_t place) {
  constexpr uint64_t kAfterTheWatchNs = 2'000'000'000;
  FusedCall put = buffers_of(call);
  put.place = place;
  if (call.call.deadline_ns != kNoDeadline) {
    put.timeout_ns = time_left(call.call.deadline_ns) + kAfterTheWatchNs;
  }
  if (Status s = kernels_->put(*call.plan, put, stream_of(call)); !s.ok()) return s;
  return std::vector<uint64_t>();
}

// One node, and nothing tells the host that a run has come: the kernel knows its deadline itself.
Status KernelEngine::capture(const exec::StreamedCall& call) {
  FusedCall put = buffers_of(call);
  if (call.call.deadline_ns != kNoDeadline) put.timeout_ns = time_left(call.call.deadline_ns);
  Status status = kernels_->put(*call.plan, put, stream_of(call));
  if (status.ok()) is_in_graphs_.store(true, std::memory_order_relaxed);
  return status;
}

// Numbers of calls rise, so the sum of the words does, too.
uint64_t KernelEngine::runs_alone_so_far() const {
  if (!is_in_graphs_.load(std::memory_order_relaxed)) return 0;
  uint64_t sum = 1;
  for (const auto& one : words_.begun) sum += one.load(std::memory_order_acquire);
  return sum;
}

// Of eager calls the watch knows. Kernels that differ may also meet without any that waits.
std::optional<streams::DeviceEngine::EngineTrouble> KernelEngine::look() {
  if (auto differs = begun_.find_difference()) {
    return EngineTrouble{std::move(differs->status), {differs->peer, rank_}};
  }
  if (!is_in_graphs_.load(std::memory_order_relaxed)) return std::nullopt;
  const uint64_t expired = words_.expired.load(std::memory_order_acquire);
  const auto late = streams::FusedWords::peer_in(expired, ranks_);
  if (!late) return std::nullopt;
  return EngineTrouble{
      Status::timeout(begun_.describe(expired) + " in a graph on " + name_of_(rank_) +
                      " passed its deadline: its kernel waits for that of " + name_of_(*late) +
                      ", which has not come to this run"),
      {*late, -1}};
}

std::optional<int> KernelEngine::find_late() const { return words_.find_late(ranks_); }

}  // namespace tutti::engines::cuda
