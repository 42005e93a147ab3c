// The calls that the ranks of a host put into graphs, compared when they are captured: each rank
// writes what it captures where the others see it, then looks at theirs.
//
// Nobody waits, and no difference is an error here: a graph may be thrown away and captured again,
// or never run, so only its runs show that ranks differ (captured_runs.h). A difference is told to
// the log, and by the error of a run that waits in vain.
//
// The calls of all ranks are a sequence of their own, and so are the transfers from each rank to
// each other one, since a capture need not have some of every sequence. A call's key is its
// sequence, the number of the capture among those that have some of the sequence, and its place in
// that capture. Two calls of one key differ if the peer has captured such a call nowhere at that
// place of a capture: one that a rank gives up and captures once more shifts the numbers of those
// behind it, and is no difference.
//
// Owns:    the numbers. The entries lie in memory that all ranks have mapped, and outlive this.
// Threads: announce() by one at a time, find() any.
// Errors:  none. Entries that were written over meanwhile are not compared.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/diagnosis/described_call.h"
#include "src/exec/transfer.h"

namespace tutti::engines::streams {

/// A captured call as its rank tells the others of it.
struct CaptureEntry {
  static constexpr uint32_t kEntries = 1024;  // of a rank
  using Words = diagnosis::DescribedWords;

  std::atomic<uint64_t> key;        // 0: none, or being written
  std::atomic<uint64_t> signature;  // equal of equal calls
  std::array<std::atomic<uint64_t>, std::tuple_size_v<Words>> words;
};

class CaptureComparison {
 public:
  struct CapturingRanks {
    std::vector<CaptureEntry*> entries;  // by rank: kEntries of each, zeros at first
    int rank = 0;
    std::function<std::string(int)> name_of;  // a rank, in messages
  };
  explicit CaptureComparison(CapturingRanks ranks)
      : ranks_(std::move(ranks)), rank_(static_cast<size_t>(ranks_.rank)) {}

  /// It is captured at once: a call of all ranks, transfers with some, or both.
  struct CapturedPart {
    uint64_t capture = 0;                            // which one, of this process
    const diagnosis::DescribedCall* call = nullptr;  // null: there is none
    uint32_t signature = 0;                          // of the call
    std::span<const exec::Transfer> transfers;
  };
  /// Text about a difference, once for each capture.
  std::optional<std::string> announce(const CapturedPart& part);
  /// The first difference of what this rank has captured and is still known, also from a peer that
  /// has less in its capture of the same number.
  std::optional<std::string> find() const;
  /// A call of all ranks with this signature that the rank has captured.
  std::optional<diagnosis::DescribedCall> find_call(size_t rank, uint32_t signature) const;

 private:
  using Words = CaptureEntry::Words;
  /// A peer's calls at a place of its captures.
  struct FoundThere {
    std::optional<Words> same_key;
    bool same_call = false;        // at that place of any capture
    bool has_the_capture = false;  // that number of the sequence
  };
  struct Counted {
    uint64_t capture = 0;
    uint32_t ordinal = 0, place = 0;  // from 1
  };
  struct KeyedCall {
    uint64_t key = 0, signature = 0;
    Words words{};
  };

  std::vector<KeyedCall> calls_of(const CapturedPart& part) TUTTI_REQUIRES(mutex_);
  uint64_t next_key(uint64_t capture, uint64_t sequence) TUTTI_REQUIRES(mutex_);
  void write(const KeyedCall& call) TUTTI_REQUIRES(mutex_);
  std::optional<std::string> compare(const KeyedCall& mine, bool names_missing) const;
  FoundThere look_for(const KeyedCall& mine, size_t rank) const;
  bool concerns(uint64_t key, size_t peer) const;
  std::string text(const KeyedCall& mine, size_t peer, const std::optional<Words>& theirs) const;
  static std::optional<KeyedCall> read(const CaptureEntry& entry);

  const CapturingRanks ranks_;
  const size_t rank_;
  mutable Mutex mutex_;
  uint64_t written_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Counted> counted_ TUTTI_GUARDED_BY(mutex_);  // by sequence
  uint64_t told_ TUTTI_GUARDED_BY(mutex_) = 0;                    // capture
};

}  // namespace tutti::engines::streams
