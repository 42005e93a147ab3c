// The memory by which the ranks of a host agree on the runs of captured calls: a page for each
// rank, written by it, mapped by all and known to the device. Graphs may outlive the communicator,
// and so does this: it is no part of the arenas.
//
// Owns: a rank's page, its mappings of the others', the registrations. A context of the device is
// current where it is made and ends. Threads: see CapturedCalls.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "src/diagnosis/described_call.h"
#include "src/drivers/cuda/memory.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/captured_words.h"
#include "src/exec/device.h"
#include "src/transport/arena.h"

namespace tutti::engines::cuda {

struct CapturedPage {
  struct alignas(exec::kLineBytes) SharedLine {
    std::atomic<uint64_t> value;
  };
  /// The call of a run, for messages about calls that differ.
  struct alignas(exec::kLineBytes) Described {
    std::array<std::atomic<uint64_t>, std::tuple_size_v<diagnosis::DescribedWords>> words;
  };
  /// A rank is at most one run ahead of another one: nobody ends a run that somebody has not begun.
  static constexpr uint32_t kRuns = 2;

  std::array<SharedLine, kCapturedWords> words;  // by CapturedWord; written by streams
  SharedLine over;                               // of this rank's run: 0, then 1 by the stream
  SharedLine last;                               // the number of the last run that has begun
  std::array<SharedLine, kRuns> runs;            // number << 32 | signature
  std::array<Described, kRuns> described;
};

class CapturedPages {
 public:
  /// Collective (exec::Device::open): all ranks have them or none.
  static Result<CapturedPages> open(const drivers::cuda::Cuda& cuda,
                                    const exec::DeviceRankOptions& options);

  size_t ranks() const { return arenas_.size(); }
  CapturedPage& page(size_t rank) const {
    return *reinterpret_cast<CapturedPage*>(arenas_[rank].data());
  }
  drivers::cuda::CUdeviceptr word(size_t rank, CapturedWord word) const;
  drivers::cuda::CUdeviceptr over(size_t rank) const;
  /// No stream uses them any more.
  void end() {
    registered_.clear();
    arenas_.clear();
  }

 private:
  CapturedPages() = default;
  Status import(size_t self, Descriptors& descriptors);
  Status register_all(const drivers::cuda::Cuda& cuda);

  std::vector<transport::Arena> arenas_;                     // by rank
  std::vector<drivers::cuda::RegisteredMemory> registered_;  // by rank; ends before arenas_
};

}  // namespace tutti::engines::cuda
