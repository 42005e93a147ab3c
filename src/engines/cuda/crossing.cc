#include "src/engines/cuda/crossing.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;

namespace {

constexpr uint64_t kLeastSlotBytes = 64 << 10;
constexpr uint64_t kAlignment = 512;  // of the copies in a slot

constexpr uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

CUdeviceptr address_of(const void* host) { return reinterpret_cast<CUdeviceptr>(host); }

}  // namespace

CrossingSlot::CrossingSlot(drivers::cuda::PinnedMemory pinned) : memory(std::move(pinned)) {
  new (memory.data()) CrossingWords{};
}

bool CrossingSlot::is_over() const {
  switch (stage.load(std::memory_order_acquire)) {
    case CrossingStage::kNew:
      return true;
    case CrossingStage::kEntered:
      return false;
    case CrossingStage::kLeft:
      return words().over.load(std::memory_order_acquire) >= use;
    case CrossingStage::kAbandoned:
      return words().ready.load(std::memory_order_acquire) >= use;
  }
  return false;
}

// The smallest that is large enough, but none that most of would lie idle.
CrossingSlot* CrossingPool::find(uint64_t bytes) {
  constexpr uint64_t kMostWaste = 8;
  CrossingSlot* best = nullptr;
  for (const auto& slot : slots_) {
    const uint64_t room = slot->memory.bytes();
    if (slot->taken || room < bytes || room > kMostWaste * bytes) continue;
    if (best != nullptr && best->memory.bytes() <= room) continue;
    if (slot->is_over()) best = slot.get();
  }
  return best;
}

Result<CrossingSlot*> CrossingPool::take(uint64_t bytes) {
  const uint64_t room = std::bit_ceil(std::max(bytes + sizeof(CrossingWords), kLeastSlotBytes));
  const std::lock_guard lock(mutex_);
  CrossingSlot* slot = find(room);
  if (slot == nullptr) {
    Result<drivers::cuda::PinnedMemory> memory = drivers::cuda::PinnedMemory::allocate(cuda_, room);
    if (!memory.ok()) return memory.status();
    slots_.push_back(std::make_unique<CrossingSlot>(std::move(memory).value()));
    slot = slots_.back().get();
  }
  slot->taken = true;
  ++slot->use;
  slot->stage.store(CrossingStage::kNew, std::memory_order_release);
  return slot;
}

void CrossingPool::give_back(CrossingSlot* slot) {
  const std::lock_guard lock(mutex_);
  slot->taken = false;
}

Result<std::unique_ptr<CrossingCopies>> CrossingCopies::create(CrossingPool& pool,
                                                               const exec::DevicePieces& input,
                                                               const exec::DevicePieces& output) {
  const uint64_t head = aligned(sizeof(CrossingWords));
  Result<CrossingSlot*> slot = pool.take(head + aligned(input.bytes) + aligned(output.bytes));
  if (!slot.ok()) return slot.status();
  std::unique_ptr<CrossingCopies> made(new CrossingCopies(pool, slot.value()));
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
  return made;
}

Result<std::shared_ptr<exec::Crossing>> CudaCrossing::create(CrossingPool& pool,
                                                             StreamInContext where,
                                                             const exec::DevicePieces& input,
                                                             const exec::DevicePieces& output) {
  Result<std::unique_ptr<CrossingCopies>> copies = CrossingCopies::create(pool, input, output);
  if (!copies.ok()) return copies.status();
  return std::shared_ptr<exec::Crossing>(new CudaCrossing(std::move(copies).value(), where));
}

CudaCrossing::~CudaCrossing() {
  abandon();
  release();  // nothing waits for what is not there any more
}

bool CudaCrossing::is_open() const {
  return slot_->words().ready.load(std::memory_order_acquire) >= slot_->use;
}

void CudaCrossing::release() { slot_->words().done.store(slot_->use, std::memory_order_release); }

bool CudaCrossing::is_over() const { return slot_->is_over(); }

void CudaCrossing::abandon() {
  CrossingStage entered = CrossingStage::kEntered;
  slot_->stage.compare_exchange_strong(entered, CrossingStage::kAbandoned);
}

Status CudaCrossing::enter() {
  const drivers::cuda::ContextScope scope(cuda_, where_.context);
  if (!scope.status().ok()) return scope.status();
  if (Status status = copies_->copy_in(where_.stream); !status.ok()) return status;
  drivers::cuda::MemoryOps words;
  words.write_64(address_of(&slot_->words().ready), slot_->use);
  Status status = words.submit(cuda_, where_.stream);
  if (status.ok()) slot_->stage.store(CrossingStage::kEntered, std::memory_order_release);
  return status;
}

Status CudaCrossing::leave() {
  Status status = put_leave();
  if (!status.ok()) {
    abandon();
  } else {
    slot_->stage.store(CrossingStage::kLeft, std::memory_order_release);
  }
  return status;
}

Status CudaCrossing::put_leave() {
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
