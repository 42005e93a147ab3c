// The memory by which the ranks of a host agree on the runs of captured calls: of each rank a page,
// its words with each peer, and what it has sent and received, mapped by all. The device knows it
// but for the last. Graphs may outlive the communicator, and so does this: it is no part of the
// arenas.
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
#include "src/engines/cuda/captured_pairs.h"
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
  /// So many of the last ones are known. Where all wait for all, a rank is at most one run ahead of
  /// another one; in an all_to_all_v some wait for nobody.
  static constexpr uint32_t kRuns = 64;

  std::array<SharedLine, kCapturedWords> words;  // by CapturedWord; written by streams
  SharedLine over;                               // of this rank's run: 0, then 1 by the stream
  SharedLine last;                               // the number of the last run that has begun
  std::array<SharedLine, kRuns> runs;            // number << 32 | signature
  std::array<Described, kRuns> described;
};

/// The words that a rank's streams wait for and reset, of its transfers with one peer; by slot.
struct CapturedPairWords {
  std::array<CapturedPage::SharedLine, CapturedPairs::kSlots> full;   // the peer's, for this rank
  std::array<CapturedPage::SharedLine, CapturedPairs::kSlots> empty;  // this rank's, for the peer
};
static_assert(sizeof(CapturedPage::SharedLine) == CapturedPairs::kWordBytes);

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
  CapturedPairWords& pair(size_t rank, size_t peer) const {
    return reinterpret_cast<CapturedPairWords*>(arenas_[rank].data() + sizeof(CapturedPage))[peer];
  }
  /// The rank's transfers in graphs, as a TransferBook has them.
  exec::TransferLog::CalledEntry* transfers(size_t rank) const;
  /// `slots`, with the words of rank `slots.rank`.
  PairAddresses with_words(PairAddresses slots) const;
  /// No stream uses them any more.
  void end() {
    registered_.clear();
    arenas_.clear();
  }

 private:
  CapturedPages() = default;
  uint64_t word_bytes() const;
  uint64_t bytes() const;
  Status make(const exec::DeviceRankOptions& options);
  Status import(size_t self, Descriptors& descriptors);
  Status register_all(const drivers::cuda::Cuda& cuda);

  std::vector<transport::Arena> arenas_;                     // by rank
  std::vector<drivers::cuda::RegisteredMemory> registered_;  // by rank; ends before arenas_
};

}  // namespace tutti::engines::cuda
