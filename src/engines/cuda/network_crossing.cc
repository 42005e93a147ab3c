#include "src/engines/cuda/network_crossing.h"

#include <atomic>

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"
#include "src/engines/cuda/captured_run.h"

namespace tutti::engines::cuda {
namespace {

constexpr uint64_t kBounceLine = 512;

constexpr uint64_t in_bounce_lines(uint64_t bytes) {
  return (bytes + kBounceLine - 1) / kBounceLine * kBounceLine;
}
constexpr uint64_t kMemoryAt = in_bounce_lines(sizeof(HostStagingWords));

drivers::cuda::CUdeviceptr pinned_word(const std::atomic<uint64_t>& word) {
  return reinterpret_cast<drivers::cuda::CUdeviceptr>(&word);
}

}  // namespace

Result<std::unique_ptr<BounceSlot>> BounceSlot::take(
    HostStagingPool& pool, std::shared_ptr<const exec::BounceShape> shape) {
  Result<HostStagingSlot*> slot = pool.take(kMemoryAt + shape->bytes());
  if (!slot.ok()) return slot.status();
  std::unique_ptr<BounceSlot> made(new BounceSlot(pool, slot.value(), std::move(shape)));
  made->begin();
  return made;
}

BounceSlot::~BounceSlot() {
  if (!abandoned_) pool_.give_back(slot_, std::move(quiet_));
}

exec::PinnedRange BounceSlot::pinned() const {
  auto* const begin = static_cast<std::byte*>(slot_->memory.data());
  return {begin, slot_->memory.bytes(), slot_->shared_from_this()};
}

std::byte* BounceSlot::memory() const {
  return static_cast<std::byte*>(slot_->memory.data()) + kMemoryAt;
}

bool CudaNetworkCrossing::is_open() const {
  return slot_->words().ready.load(std::memory_order_acquire) >= slot_->slot().use;
}

Status CudaNetworkCrossing::write(std::atomic<uint64_t>& word, bool behind_begin) const {
  const drivers::cuda::ContextScope scope(slot_->cuda(), where_.context);
  if (!scope.status().ok()) return scope.status();
  drivers::cuda::MemoryOps words;
  if (behind_begin) {
    words.wait_at_least_64(pinned_word(slot_->words().done), slot_->slot().use);
  }
  words.write_64(pinned_word(word), slot_->slot().use);
  return words.submit(slot_->cuda(), where_.stream);
}

Status CudaNetworkCrossing::enter() {
  Status status = write(slot_->words().ready, false);
  if (status.ok()) {
    slot_->slot().stage.store(HostStagingState::kEntered, std::memory_order_release);
  }
  return status;
}

Status CudaNetworkCrossing::leave() {
  Status status = put_();
  if (status.ok()) status = write(slot_->words().over, true);
  if (status.ok()) {
    slot_->slot().stage.store(HostStagingState::kLeft, std::memory_order_release);
  } else {
    slot_->abandon();
  }
  return status;
}

std::shared_ptr<exec::Fence> CapturedNetworkCrossing::fence() {
  return std::make_shared<CapturedRun<CapturedNetworkCrossing>>(shared_from_this());
}

// The next run sets the bounce buffer's words to 0 behind `done`.
void CapturedNetworkCrossing::skip() {
  slot_->let_go();
  slot_->words().done.store(1, std::memory_order_release);
}

void CapturedNetworkCrossing::begin_run() {
  slot_->begin();
  arrived_();
}

Status CapturedNetworkCrossing::enter() {
  const drivers::cuda::ContextScope scope(slot_->cuda(), where_.context);
  if (!scope.status().ok()) return scope.status();
  const auto begin = [](void* data) { static_cast<CapturedNetworkCrossing*>(data)->begin_run(); };
  return drivers::cuda::call_on_host(slot_->cuda(), where_.stream, begin, this);
}

Status CapturedNetworkCrossing::leave() {
  if (Status status = put_(); !status.ok()) return status;
  const drivers::cuda::ContextScope scope(slot_->cuda(), where_.context);
  if (!scope.status().ok()) return scope.status();
  drivers::cuda::MemoryOps words;
  words.wait_at_least_64(pinned_word(slot_->words().done), 1);
  words.write_64(pinned_word(slot_->words().done), 0);
  return words.submit(slot_->cuda(), where_.stream);
}

}  // namespace tutti::engines::cuda
