// The parts of CudaDeviceRank about calls that an engine puts into a stream as a whole.
#include <utility>

#include "src/engines/cuda/device_rank.h"
#include "src/engines/cuda/kernel_engine.h"

namespace tutti::engines::cuda {

Status CudaDeviceRank::open_fused() {
  const DeviceAddresses here = addresses();
  Result<std::shared_ptr<FusedCalls>> opened =
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
  KernelEngine::KernelParts parts;
  parts.kernels = fused_;
  parts.words = &captured_->host_words();
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    parts.ranks.words.push_back(&captured_->host_words(rank));
  }
  parts.ranks.rank = options_.rank;
  parts.ranks.name_of = options_.name_of;
  parts.ranks.find_call = [this](size_t rank, uint32_t signature) {
    const auto captured = captured_->captures().find_call(rank, signature);
    return captured ? captured : calls_.comparison().find_call(rank, signature);
  };
  use(exec::CallEngine::kKernel, std::make_shared<KernelEngine>(std::move(parts)));
  return {};
}

Status CudaDeviceRank::open_vendor() {
  const auto self = static_cast<size_t>(options_.rank);
  Result<std::shared_ptr<NcclEngine>> opened =
      NcclEngine::open(cuda_, context_, options_,
                       {.counter = addresses().counters[0][self],
                        .finished = ring_->finished(),
                        .progress = &cursors_.lanes[0].progress});
  if (!opened.ok()) return opened.status();
  vendor_ = std::move(opened).value();
  if (!vendor_->refusal().ok()) return {};
  use(exec::CallEngine::kVendor, vendor_);
  captured_->use(vendor_);
  return {};
}

void CudaDeviceRank::use(exec::CallEngine which, std::shared_ptr<streams::DeviceEngine> engine) {
  captured_->use(which, engine);
  calls_.use(*engine);
  engines_[static_cast<size_t>(which)] = std::move(engine);
}

Status CudaDeviceRank::enqueue_whole(exec::StreamedCall call, streams::DeviceEngine& engine) {
  const uint64_t place = calls_.next_place();
  Result<std::vector<uint64_t>> awaited = engine.put(call, place);
  if (!awaited.ok()) {
    calls_.fail(awaited.status(), {options_.rank, -1});
    return awaited.status();
  }
  calls_.keep({.call = {.place = place,
                        .number = calls_.number(),
                        .label = call.label,
                        .what = call.call.what},
               .deadline_ns = call.call.deadline_ns,
               .awaited = std::move(awaited).value(),
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
