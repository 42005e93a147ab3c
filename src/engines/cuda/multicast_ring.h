// The rings of all ranks of a host behind one multicast address (drivers/cuda/multicast.h): all of
// them, or none, which the ranks agree on.
//
// Owns: this rank's share. Threads: one. Contexts: the device's is current. Lifetime: it ends
// before the ring does. Nobody uses the address any more then.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/drivers/cuda/multicast.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

class MulticastRing {
 public:
  /// Rings are multiples of so many bytes. kUnsupported: this rank cannot take part.
  static Result<uint64_t> unit(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
                               unsigned ranks);

  /// `bytes`: of each ring, from its begin, that are to be behind the address, at least.
  MulticastRing(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device, unsigned ranks,
                uint64_t bytes)
      : cuda_(cuda), device_(device), ranks_(ranks), bytes_(bytes) {}

  /// Collective. kUnsupported, on all ranks: the reason of the first one that cannot. Another error
  /// is one of the exchange. `own`: the ring, which lies on the device. `ready`: OK, or why this
  /// rank cannot. Again behind release(): at the same address.
  Status join(const exec::DeviceRankOptions& options, const drivers::cuda::DeviceMemory* own,
              Status ready);
  void release() {
    if (memory_) memory_->release();
  }
  drivers::cuda::CUdeviceptr address() const { return memory_->address(); }

 private:
  Status prepare(const exec::DeviceRankOptions& options, const drivers::cuda::DeviceMemory* own);
  Status offer(const exec::DeviceRankOptions& options, int& number);
  Status take(const exec::DeviceRankOptions& options, const std::vector<std::string>& texts);

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::CUdevice device_;
  const unsigned ranks_;
  const uint64_t bytes_;
  std::optional<drivers::cuda::MulticastMemory> memory_;
  Fd exported_;  // of the first rank, until all have imported it
};

}  // namespace tutti::engines::cuda
