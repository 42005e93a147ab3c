// The send and receive buffers of one rank.
//
// Consecutive iterations use different buffers, as a training step does: for small calls one pair
// used again and again would stay in the first cache level and would reward remembering its
// address. The number of pairs is 1 MiB / bytes, rounded down to a power of two, at least 1 and at
// most 8: 8 up to 128 KiB, one above 512 KiB.
#pragma once

#include <cstddef>
#include <memory>

#include "perf/collectives/communicator.h"

namespace tutti::perf {

size_t buffer_pairs(size_t bytes);

class Buffers {
 public:
  /// Collective if registered. Every rank passes the same: the greatest arguments of use_size().
  Buffers(const Communicator& communicator, size_t largest_bytes, size_t largest_shift_bytes,
          bool registered);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  /// Cuts the memory into pairs of this size. Each buffer begins `shift_bytes` behind a cache line.
  void use_size(size_t bytes, size_t shift_bytes);
  size_t pairs() const { return last_pair_ + 1; }

  /// Where the host finds what lies at `address`, which may be device memory: in a copy then, which
  /// put() and get() bring there, and here.
  std::byte* on_host(const std::byte* address) const { return host_ + (address - memory_); }
  void put(const std::byte* address, size_t bytes) const;
  void get(const std::byte* address, size_t bytes) const;

  std::byte* send(size_t iteration) const { return send_ + (iteration & last_pair_) * stride_; }
  std::byte* recv(size_t iteration) const { return recv_ + (iteration & last_pair_) * stride_; }

 private:
  std::byte* allocate(size_t bytes);

  const Communicator& communicator_;
  const bool registered_;
  std::byte* memory_ = nullptr;
  std::byte* host_ = nullptr;  // its copy there, or itself
  size_t half_bytes_ = 0;      // send buffers lie in the first half, receive buffers in the second
  void* registration_ = nullptr;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  size_t last_pair_ = 0;  // a mask: their number is a power of two
  size_t stride_ = 0;
};

}  // namespace tutti::perf
