#include "perf/collectives/buffers.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr size_t kRotatedBytes = size_t{1} << 20;
constexpr size_t kMostPairs = 8;
constexpr size_t kLineBytes = 64;
constexpr size_t kPageBytes = 4096;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Room for the pairs of every size up to `bytes`: pairs * stride peaks at 1 MiB or at the greatest
/// size.
size_t room_for(size_t bytes) {
  return round_up(std::max(bytes, kRotatedBytes) + kMostPairs * kLineBytes, kPageBytes);
}

std::byte* allocate_on_host(size_t bytes) {
  void* const memory = std::aligned_alloc(kPageBytes, bytes);
  if (memory == nullptr) throw PerfError("no memory for " + std::to_string(bytes) + " bytes");
  return static_cast<std::byte*>(memory);
}

}  // namespace

size_t buffer_pairs(size_t bytes) {
  return std::bit_floor(
      std::clamp(kRotatedBytes / std::max<size_t>(bytes, 1), size_t{1}, kMostPairs));
}

Buffers::Buffers(const Communicator& communicator, size_t largest_bytes, size_t largest_shift_bytes,
                 bool registered)
    : communicator_(communicator),
      registered_(registered),
      half_bytes_(room_for(largest_bytes) + round_up(largest_shift_bytes, kPageBytes)) {
  const size_t bytes = 2 * half_bytes_;
  memory_ = allocate(bytes);
  host_ = memory_;
  if (communicator.device() != nullptr) host_ = allocate_on_host(bytes);
  std::memset(host_, 1, bytes);  // the first touch belongs to nobody's time
  put(memory_, bytes);
  use_size(largest_bytes, 0);
}

std::byte* Buffers::allocate(size_t bytes) {
  void* memory = nullptr;
  if (communicator_.device() != nullptr) {
    communicator_.check(tuttiMemAllocFor(&memory, bytes, communicator_.stream()),
                        "tuttiMemAllocFor");
  } else if (registered_) {
    communicator_.check(tuttiMemAlloc(&memory, bytes), "tuttiMemAlloc");
    communicator_.check(tuttiCommRegister(communicator_.comm(), memory, bytes, &registration_),
                        "tuttiCommRegister");
  } else {
    memory = allocate_on_host(bytes);
  }
  return static_cast<std::byte*>(memory);
}

void Buffers::put(const std::byte* address, size_t bytes) const {
  Device* const device = communicator_.device();
  if (device != nullptr) device->copy(const_cast<std::byte*>(address), on_host(address), bytes);
}

void Buffers::get(const std::byte* address, size_t bytes) const {
  Device* const device = communicator_.device();
  if (device != nullptr) device->copy(on_host(address), address, bytes);
}

Buffers::~Buffers() {
  if (communicator_.device() != nullptr) {
    tuttiMemFree(memory_);
    std::free(host_);
    return;
  }
  if (!registered_) {
    std::free(memory_);
    return;
  }
  tuttiCommDeregister(communicator_.comm(), registration_);
  tuttiMemFree(memory_);
}

void Buffers::use_size(size_t bytes, size_t shift_bytes) {
  last_pair_ = buffer_pairs(bytes) - 1;
  stride_ = round_up(bytes, kLineBytes);
  send_ = memory_ + shift_bytes;
  recv_ = memory_ + half_bytes_ + shift_bytes;
}

}  // namespace tutti::perf
