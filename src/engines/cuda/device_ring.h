// The memory by which the ranks of a host reach each other from device to device: in every rank's
// device memory a ring for collectives and behind it, as long, slots for its peers, mapped by all;
// and the counters in the arenas, made known to the driver.
//
// Owns: this rank's ring, its mappings of the others, the registrations. Threads: one. Lifetime: it
// ends when the rank's streams are past all that uses it; the arenas live longer. The peers'
// mappings of this rank's ring stay theirs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/pair_streams.h"
#include "src/engines/cuda/stream_machine.h"
#include "src/exec/device.h"

namespace tutti::engines::cuda {

class DeviceRing {
 public:
  /// Collective (exec::Device::open). `device` is the rank's; its context is current.
  static Result<std::unique_ptr<DeviceRing>> open(const drivers::cuda::Cuda& cuda,
                                                  drivers::cuda::CUdevice device,
                                                  const exec::DeviceRankOptions& options);

  /// Unmaps and frees the rings, and makes the driver forget the counters, which no stream uses any
  /// more. A context of the device is current.
  void end();

  DeviceAddresses addresses() const;
  PairAddresses pair_addresses() const;
  /// Of this rank's `finished`.
  CUdeviceptr finished() const;

 private:
  /// A ring as its rank tells the others of it.
  struct Offer {
    int descriptor = -1;
    uint64_t bytes = 0;
  };

  DeviceRing(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
             const exec::DeviceRankOptions& options);
  Status make(const exec::DeviceRankOptions& options);
  std::string offer() const;
  static std::optional<Offer> read_offer(std::string_view text);
  Status register_pages(const exec::DeviceRankOptions& options);
  static std::vector<int> numbers_in(const std::vector<std::string>& texts);
  Status import(const std::vector<std::string>& texts, const Descriptors& descriptors);

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::CUdevice device_;
  const size_t rank_;
  const uint64_t ring_bytes_;  // without the slots
  const PairSlots slots_;
  std::optional<drivers::cuda::DeviceMemory> mine_;
  Fd exported_;                                                     // until all have imported it
  std::vector<std::optional<drivers::cuda::DeviceMemory>> theirs_;  // by rank
  std::vector<drivers::cuda::RegisteredMemory> pages_;              // by rank
};

}  // namespace tutti::engines::cuda
