#include "src/engines/cuda/host_staging.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/reaper.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;

namespace {

constexpr uint64_t kLeastSlotBytes = 64 << 10;
constexpr uint64_t kAlignment = 512;  // of the copies in a slot

constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

CUdeviceptr address_of(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

/// Lets go of `held` when the stream has come to the first point of that use of the slot. It is
/// ended by a thread that may wait, but not for ever: what a stream may still copy then stays held.
class HeldForStream {
 public:
  HeldForStream(const HostStagingSlot& slot, std::shared_ptr<const void> held)
      : slot_(slot), use_(slot.use), held_(std::move(held)) {}
  HeldForStream(const HeldForStream&) = delete;
  HeldForStream& operator=(const HeldForStream&) = delete;
  ~HeldForStream() {
    constexpr uint64_t kPatienceNs = 10'000'000'000;
    constexpr auto kNap = std::chrono::microseconds(50);
    const uint64_t until_ns = monotonic_ns() + kPatienceNs;
    while (!has_come() && monotonic_ns() < until_ns) std::this_thread::sleep_for(kNap);
    if (!has_come()) (void)new std::shared_ptr<const void>(std::move(held_));
  }

 private:
  bool has_come() const { return slot_.words().ready.load(std::memory_order_acquire) >= use_; }

  const HostStagingSlot& slot_;  // the pool never frees one
  const uint64_t use_;
  std::shared_ptr<const void> held_;
};

}  // namespace

HostStagingSlot::HostStagingSlot(drivers::cuda::PinnedMemory pinned) : memory(std::move(pinned)) {
  new (memory.data()) HostStagingWords{};
}

bool HostStagingSlot::is_over() const {
  switch (stage.load(std::memory_order_acquire)) {
    case HostStagingState::kNew:
      return true;
    case HostStagingState::kEntered:
      return false;
    case HostStagingState::kLeft:
      return words().over.load(std::memory_order_acquire) >= use;
    case HostStagingState::kAbandoned:
      return words().ready.load(std::memory_order_acquire) >= use;
  }
  return false;
}

HostStagingPool& HostStagingPool::of_process(const drivers::cuda::Cuda& cuda) {
  // tidy: allow mutable (one pool of pinned memory for all communicators of the process)
  static auto* const known = new HostStagingPool(cuda);
  return *known;
}

bool HostStagingPool::is_free(const HostStagingSlot& slot) const {
  const bool is_quiet = slot.quiet == nullptr || slot.quiet->load(std::memory_order_acquire);
  return !slot.taken && is_quiet && slot.is_over();
}

// The smallest that is large enough, but none that most of would lie idle.
HostStagingSlot* HostStagingPool::find(uint64_t bytes) {
  constexpr uint64_t kMostWaste = 8;
  HostStagingSlot* best = nullptr;
  for (const auto& slot : slots_) {
    const uint64_t room = slot->memory.bytes();
    if (room < bytes || room > kMostWaste * bytes) continue;
    if (best != nullptr && best->memory.bytes() <= room) continue;
    if (is_free(*slot)) best = slot.get();
  }
  return best;
}

Result<HostStagingSlot*> HostStagingPool::take(uint64_t bytes) {
  const uint64_t room = std::bit_ceil(std::max(bytes + sizeof(HostStagingWords), kLeastSlotBytes));
  const MutexLock lock(mutex_);
  HostStagingSlot* slot = find(room);
  if (slot == nullptr) {
    Result<drivers::cuda::PinnedMemory> memory = drivers::cuda::PinnedMemory::allocate(cuda_, room);
    if (!memory.ok()) return memory.status();
    slots_.push_back(std::make_shared<HostStagingSlot>(std::move(memory).value()));
    slot = slots_.back().get();
  }
  slot->taken = true;
  slot->quiet = nullptr;
  ++slot->use;
  slot->stage.store(HostStagingState::kNew, std::memory_order_release);
  return slot;
}

void HostStagingPool::give_back(HostStagingSlot* slot,
                                std::shared_ptr<const std::atomic<bool>> quiet) {
  const MutexLock lock(mutex_);
  slot->taken = false;
  slot->quiet = std::move(quiet);
}

void HostStagingPool::trim() {
  const MutexLock lock(mutex_);
  std::erase_if(slots_, [this](const auto& slot) TUTTI_REQUIRES(mutex_) {
    return slot.use_count() == 1 && is_free(*slot);
  });
}

Result<std::unique_ptr<HostStagingCopies>> HostStagingCopies::create(
    HostStagingPool& pool, const exec::DevicePieces& input, const exec::DevicePieces& output) {
  const uint64_t head = aligned(sizeof(HostStagingWords));
  Result<HostStagingSlot*> slot = pool.take(head + aligned(input.bytes) + aligned(output.bytes));
  if (!slot.ok()) return slot.status();
  std::unique_ptr<HostStagingCopies> made(new HostStagingCopies(pool, slot.value()));
  auto* const memory = static_cast<std::byte*>(slot.value()->memory.data());
  made->input_ = memory + head;
  made->output_ = made->input_ + aligned(input.bytes);
  for (const exec::DevicePiece& piece : input.pieces) {
    made->in_.add(address_of(made->input_ + piece.offset), address_of(piece.device), piece.bytes,
                  true);
  }
  for (const exec::DevicePiece& piece : output.pieces) {
    made->out_.add(address_of(piece.device), address_of(made->output_ + piece.offset), piece.bytes,
                   true);
  }
  for (const exec::DeviceCopy& copy : input.direct.copies) {
    made->in_.add(address_of(copy.target), address_of(copy.source), copy.bytes, copy.crosses);
  }
  made->held_ = input.direct.held;
  return made;
}

// A failed call does not wait for its stream, which may be held up by anything before the copies.
HostStagingCopies::~HostStagingCopies() {
  const HostStagingState stage = slot_->stage.load(std::memory_order_acquire);
  const bool may_copy = stage == HostStagingState::kLeft || stage == HostStagingState::kAbandoned;
  if (held_ != nullptr && may_copy) {
    using drivers::cuda::Reaper;
    auto held = std::make_shared<HeldForStream>(*slot_, std::move(held_));
    if (slot_->words().ready.load(std::memory_order_acquire) < slot_->use) {
      Reaper::get().take(std::make_unique<Reaper::Kept>(std::move(held)));
    }
  }
  pool_.give_back(slot_);
}

Result<std::shared_ptr<exec::HostStaging>> CudaHostStaging::create(
    HostStagingPool& pool, StreamInContext where, const exec::DevicePieces& input,
    const exec::DevicePieces& output) {
  Result<std::unique_ptr<HostStagingCopies>> copies =
      HostStagingCopies::create(pool, input, output);
  if (!copies.ok()) return copies.status();
  return std::shared_ptr<exec::HostStaging>(new CudaHostStaging(std::move(copies).value(), where));
}

CudaHostStaging::~CudaHostStaging() {
  abandon();
  release();  // nothing waits for what is not there any more
}

bool CudaHostStaging::is_open() const {
  return slot_->words().ready.load(std::memory_order_acquire) >= slot_->use;
}

void CudaHostStaging::release() {
  slot_->words().done.store(slot_->use, std::memory_order_release);
}

bool CudaHostStaging::is_over() const { return slot_->is_over(); }

void CudaHostStaging::abandon() {
  HostStagingState entered = HostStagingState::kEntered;
  slot_->stage.compare_exchange_strong(entered, HostStagingState::kAbandoned);
}

Status CudaHostStaging::enter() {
  const drivers::cuda::ContextScope scope(cuda_, where_.context);
  if (!scope.status().ok()) return scope.status();
  if (Status status = copies_->copy_in(where_.stream); !status.ok()) return status;
  drivers::cuda::MemoryOps words;
  words.write_64(address_of(&slot_->words().ready), slot_->use);
  Status status = words.submit(cuda_, where_.stream);
  if (status.ok()) slot_->stage.store(HostStagingState::kEntered, std::memory_order_release);
  return status;
}

Status CudaHostStaging::leave() {
  Status status = put_leave();
  if (!status.ok()) {
    abandon();
  } else {
    slot_->stage.store(HostStagingState::kLeft, std::memory_order_release);
  }
  return status;
}

Status CudaHostStaging::put_leave() {
  const drivers::cuda::ContextScope scope(cuda_, where_.context);
  if (!scope.status().ok()) return scope.status();
  drivers::cuda::MemoryOps words;
  words.wait_at_least_64(address_of(&slot_->words().done), slot_->use);
  if (Status status = words.submit(cuda_, where_.stream); !status.ok()) return status;
  if (Status status = copies_->copy_out(where_.stream); !status.ok()) return status;
  words.clear();
  words.write_64(address_of(&slot_->words().over), slot_->use);
  return words.submit(cuda_, where_.stream);
}

}  // namespace tutti::engines::cuda
