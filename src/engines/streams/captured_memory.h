// The memory by which the ranks of a host agree on the runs of captured calls, as it lies in each
// rank's mapping: words that streams write and wait for, and behind them what the hosts tell each
// other, which no device has to know.
//
//   CapturedPage         the words of all ranks' runs
//   CapturedPairWords    by peer: those of sends and receives
//   recent, log          of the last runs (call_comparison.h)
//   transfers            with each peer, as a TransferBook has them
//   captured             what the rank captures (capture_comparison.h)
//
// Owns: nothing. Threads: see CapturedRuns. Errors: none.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/diagnosis/described_call.h"
#include "src/engines/streams/call_comparison.h"
#include "src/engines/streams/capture_comparison.h"
#include "src/engines/streams/captured_words.h"
#include "src/engines/streams/fused_words.h"
#include "src/exec/arena_map.h"
#include "src/exec/transfer_log.h"

namespace tutti::engines::streams {

struct CapturedPage {
  struct alignas(exec::kLineBytes) SharedLine {
    std::atomic<uint64_t> value;
  };
  std::array<SharedLine, kCapturedWords> words;  // by CapturedWord; written by streams
  SharedLine over;                               // of this rank's run: 0, then 1 by the stream
  SharedLine last;                               // number << 32 | signature of the last run
  FusedWords fused;                              // of kernels that wait, of eager calls too
};

/// The words that a rank's streams wait for and reset, of its transfers with one peer; by slot.
struct CapturedPairWords {
  /// Where the pieces for the peer lie that are in no slot: by slot of eager calls, then of graphs.
  struct alignas(exec::kLineBytes) PlaceLine {
    static constexpr size_t kEagerSlots = 4;
    std::array<std::atomic<uint64_t>, kEagerSlots> eager;
    std::array<std::atomic<uint64_t>, kCapturedSlots> captured;
  };
  std::array<CapturedPage::SharedLine, kCapturedSlots> full;   // the peer's, for this rank
  std::array<CapturedPage::SharedLine, kCapturedSlots> empty;  // this rank's, for the peer
  PlaceLine places;
};

class CapturedMemory {
 public:
  /// So many of the last runs are known. Where all wait for all, a rank is at most one run ahead of
  /// another one; in an all_to_all_v some wait for nobody.
  static constexpr uint32_t kRuns = 64;

  CapturedMemory() = default;
  /// Where each rank's begins: zeros at first, bytes(ranks) of them.
  explicit CapturedMemory(std::vector<std::byte*> bases) : bases_(std::move(bases)) {}

  /// The part that devices have to know.
  static uint64_t word_bytes(size_t ranks) {
    return exec::ArenaLayout::page(sizeof(CapturedPage) + ranks * sizeof(CapturedPairWords));
  }
  static uint64_t bytes(size_t ranks) {
    return word_bytes(ranks) + kHostBytes + transfer_bytes(ranks) + kCaptureBytes;
  }

  size_t ranks() const { return bases_.size(); }
  CapturedPage& page(size_t rank) const { return *reinterpret_cast<CapturedPage*>(bases_[rank]); }
  CapturedPairWords& pair(size_t rank, size_t peer) const {
    return reinterpret_cast<CapturedPairWords*>(bases_[rank] + sizeof(CapturedPage))[peer];
  }
  CallWords call_words(size_t rank) const {
    std::byte* const host = bases_[rank] + word_bytes(ranks());
    return {.last = &page(rank).last.value,
            .recent = reinterpret_cast<std::atomic<uint64_t>*>(host),
            .log = reinterpret_cast<diagnosis::CallLog::Run*>(host + kRecentBytes),
            .transfers = reinterpret_cast<exec::TransferLog::CalledEntry*>(host + kHostBytes)};
  }
  CaptureEntry* captured(size_t rank) const {
    return reinterpret_cast<CaptureEntry*>(bases_[rank] + word_bytes(ranks()) + kHostBytes +
                                           transfer_bytes(ranks()));
  }
  /// All slots of the rank are free: before anybody uses them.
  void free_slots(size_t rank) const {
    for (size_t peer = 0; peer < ranks(); ++peer) {
      for (CapturedPage::SharedLine& word : pair(rank, peer).empty) word.value.store(1);
    }
  }

 private:
  static constexpr uint64_t kRecentBytes =
      exec::ArenaLayout::page(kRuns * sizeof(std::atomic<uint64_t>));
  static constexpr uint64_t kHostBytes =
      kRecentBytes +
      exec::ArenaLayout::page(diagnosis::CallLog::kRuns * sizeof(diagnosis::CallLog::Run));

  static constexpr uint64_t kCaptureBytes =
      exec::ArenaLayout::page(CaptureEntry::kEntries * sizeof(CaptureEntry));
  static uint64_t transfer_bytes(size_t ranks) {
    return exec::ArenaLayout::page(2 * ranks * exec::ArenaLayout::kTransferLogBytes);
  }

  std::vector<std::byte*> bases_;  // by rank
};

}  // namespace tutti::engines::streams
