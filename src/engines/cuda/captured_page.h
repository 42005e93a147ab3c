// The memory by which the ranks of a host agree on the runs of captured calls
// (streams::CapturedMemory), mapped by all, its words known to the device. Graphs may outlive the
// communicator, and so does this: it is no part of the arenas.
//
// Owns: a rank's page, its mappings of the others', the registrations. A context of the device is
// current where it is made and ends. Threads: see CapturedCalls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/drivers/cuda/memory.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/captured_pairs.h"
#include "src/engines/streams/captured_memory.h"
#include "src/engines/streams/captured_words.h"
#include "src/exec/stream_rank.h"
#include "src/transport/arena.h"

namespace tutti::engines::cuda {

class CapturedPages {
 public:
  /// Collective (exec::Device::open): all ranks have them or none.
  static Result<CapturedPages> open(const drivers::cuda::Cuda& cuda,
                                    const exec::DeviceRankOptions& options);

  size_t ranks() const { return arenas_.size(); }
  const streams::CapturedMemory& memory() const { return memory_; }
  drivers::cuda::CUdeviceptr word(size_t rank, streams::CapturedWord word) const;
  drivers::cuda::CUdeviceptr over(size_t rank) const;
  /// Of the rank's FusedWords.
  drivers::cuda::CUdeviceptr fused(size_t rank) const;
  /// `slots`, with the words of rank `slots.rank`.
  PairAddresses with_words(PairAddresses slots) const;
  /// The same of eager calls, whose counting words it has: with the places of their slots.
  PairAddresses with_places(PairAddresses counted) const;
  /// No stream uses them any more.
  void end() {
    registered_.clear();
    arenas_.clear();
  }

 private:
  CapturedPages() = default;
  Status make(const exec::DeviceRankOptions& options);
  Status import(size_t self, Descriptors& descriptors);
  Status register_all(const drivers::cuda::Cuda& cuda);
  drivers::cuda::CUdeviceptr words_of(size_t rank, size_t peer) const;

  std::vector<transport::Arena> arenas_;                     // by rank
  streams::CapturedMemory memory_;                           // as they lie here
  std::vector<drivers::cuda::RegisteredMemory> registered_;  // by rank; ends before arenas_
};

}  // namespace tutti::engines::cuda
