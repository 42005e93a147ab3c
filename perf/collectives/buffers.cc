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

}  // namespace

size_t buffer_pairs(size_t bytes) {
  return std::bit_floor(
      std::clamp(kRotatedBytes / std::max<size_t>(bytes, 1), size_t{1}, kMostPairs));
}

Buffers::Buffers(const Communicator& communicator, size_t send_bytes, size_t recv_bytes,
                 bool registered)
    : communicator_(communicator), registered_(registered) {
  const size_t send_room = room_for(send_bytes);
  const size_t bytes = send_room + room_for(recv_bytes);
  memory_ = allocate(bytes);
  send_ = memory_;
  recv_ = memory_ + send_room;
  std::memset(memory_, 1, bytes);  // the first touch belongs to nobody's time
  use_sizes(send_bytes, recv_bytes);
}

std::byte* Buffers::allocate(size_t bytes) {
  void* memory = nullptr;
  if (registered_) {
    communicator_.check(tuttiMemAlloc(&memory, bytes), "tuttiMemAlloc");
    communicator_.check(tuttiCommRegister(communicator_.comm(), memory, bytes, &registration_),
                        "tuttiCommRegister");
  } else {
    memory = std::aligned_alloc(kPageBytes, bytes);
  }
  if (memory == nullptr) throw PerfError("no memory for " + std::to_string(bytes) + " bytes");
  return static_cast<std::byte*>(memory);
}

Buffers::~Buffers() {
  if (!registered_) {
    std::free(memory_);
    return;
  }
  tuttiCommDeregister(communicator_.comm(), registration_);
  tuttiMemFree(memory_);
}

void Buffers::use_sizes(size_t send_bytes, size_t recv_bytes) {
  last_pair_ = buffer_pairs(std::max(send_bytes, recv_bytes)) - 1;
  send_stride_ = round_up(send_bytes, kLineBytes);
  recv_stride_ = round_up(recv_bytes, kLineBytes);
}

}  // namespace tutti::perf
