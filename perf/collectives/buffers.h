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
  /// Collective if registered. Every rank passes the same sizes: the largest send and receive
  /// buffer.
  Buffers(const Communicator& communicator, size_t send_bytes, size_t recv_bytes, bool registered);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  /// Cuts the memory into pairs of this size.
  void use_sizes(size_t send_bytes, size_t recv_bytes);
  size_t pairs() const { return last_pair_ + 1; }

  std::byte* send(size_t iteration) const {
    return send_ + (iteration & last_pair_) * send_stride_;
  }
  std::byte* recv(size_t iteration) const {
    return recv_ + (iteration & last_pair_) * recv_stride_;
  }

 private:
  std::byte* allocate(size_t bytes);

  const Communicator& communicator_;
  const bool registered_;
  std::byte* memory_ = nullptr;
  void* registration_ = nullptr;
  std::byte* send_ = nullptr;
  std::byte* recv_ = nullptr;
  size_t last_pair_ = 0;  // a mask: their number is a power of two
  size_t send_stride_ = 0;
  size_t recv_stride_ = 0;
};

}  // namespace tutti::perf
