// The parts of CudaDeviceRank about calls that one kernel runs by itself.
#include <utility>

#include "src/base/clock.h"
#include "src/engines/cuda/device_rank.h"

namespace tutti::engines::cuda {

Status CudaDeviceRank::open_fused() {
  const DeviceAddresses here = addresses();
  Result<std::shared_ptr<const FusedCalls>> opened =
      FusedCalls::open(cuda_, options_,
                       {.kernels = kernels_,
                        .ring = ring_.get(),
                        .words = captured_->fused_words(),
                        .scratch = here.scratch,
                        .scratch_bytes = here.scratch_bytes});
  if (!opened.ok() && opened.status().code() != Code::kUnsupported) return opened.status();
  fuses_ = opened.ok() ? Status() : opened.status();
  if (!opened.ok()) return {};
  fused_ = std::move(opened).value();
  captured_->use(fused_);
  calls_.use(captured_->host_words());
  return {};
}

// The watch ends what is late. The kernel knows its deadline as well, should the host be held up.
Status CudaDeviceRank::enqueue_fused(exec::StreamedCall call) {
  constexpr uint64_t kAfterTheWatchNs = 2'000'000'000;
  FusedCall put{.send = reinterpret_cast<uint64_t>(call.call.send),
                .recv = reinterpret_cast<uint64_t>(call.call.recv),
                .factor = call.factor ? &*call.factor : nullptr,
                .place = calls_.next_place()};
  if (call.call.deadline_ns != kNoDeadline) {
    const uint64_t now_ns = monotonic_ns();
    const uint64_t left = call.call.deadline_ns > now_ns ? call.call.deadline_ns - now_ns : 0;
    put.timeout_ns = left + kAfterTheWatchNs;
  }
  Status status = fused_ == nullptr
                      ? Status::internal_error("this group has no kernels that wait")
                      : fused_->put(*call.plan, put, static_cast<CUstream>(call.where.stream));
  if (!status.ok()) {
    calls_.fail(status, {options_.rank, -1});
    return status;
  }
  calls_.keep({.call = {.place = put.place,
                        .number = calls_.number(),
                        .label = call.label,
                        .what = call.call.what},
               .deadline_ns = call.call.deadline_ns,
               .over = std::move(call.over)});
  return {};
}

Result<exec::FusedNeed> CudaDeviceRank::need_fused(const plan::Plan& plan, int rank,
                                                   const exec::Call& buffers) const {
  return FusedCalls::need(plan, rank, static_cast<int>(options_.arenas.size()), buffers);
}

uint64_t CudaDeviceRank::mailbox_bytes() const {
  return fused_ == nullptr ? 0 : fused_->mailbox_bytes();
}

exec::DeviceCounts CudaDeviceRank::count_fused(const plan::Plan& plan) const {
  return fused_ == nullptr ? exec::DeviceCounts() : fused_->count(plan);
}

}  // namespace tutti::engines::cuda
