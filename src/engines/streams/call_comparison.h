// The calls that the ranks of a host put into their streams, or that their graphs run, compared. No
// stream can do that: so each rank writes its call where the others see it before it looks at
// theirs, and of two that differ the second finds it.
//
// Owns:    nothing; the words lie in memory that all ranks have mapped, and outlive this.
// Threads: announce() by one at a time, all else by any.
// Errors:  a CallDifference. A call that is not known any more, or was written over meanwhile, is
// none.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/diagnosis/described_call.h"
#include "src/exec/transfer_book.h"

namespace tutti::engines::streams {

/// Where one rank writes, and the others read.
struct CallWords {
  std::atomic<uint64_t>* last = nullptr;    // of its last call: number << 32 | signature
  std::atomic<uint64_t>* recent = nullptr;  // the same; of call n at n % ComparedRanks::places
  diagnosis::CallLog::Run* log = nullptr;
  exec::TransferLog::CalledEntry* transfers = nullptr;
};

struct ComparedRanks {
  std::vector<CallWords> words;  // by rank
  uint32_t places = 0;
  int rank = 0;
  uint64_t pair_bytes = 0;                  // as TransferBook's
  std::function<std::string(int)> name_of;  // a rank, in messages
  std::string call_text;                    // "call {} on device memory": {} is the number
};

/// `peer` has called something else in the place of a call of this rank.
struct CallDifference {
  Status status;
  int peer = 0;
};

class CallComparison {
 public:
  explicit CallComparison(ComparedRanks ranks);

  /// The next call of all ranks. A difference may be that of the call before: a peer that has found
  /// one lets this rank's streams go on.
  std::optional<CallDifference> announce(uint32_t signature, const diagnosis::DescribedCall& call);
  /// The next transfers.
  std::optional<CallDifference> announce(std::span<const exec::Transfer> transfers,
                                         const exec::TransferBook::Manner& manner);
  /// Of the calls that streams may not be past, and of some before them, whose streams peers may
  /// have let go on.
  std::optional<CallDifference> find_recent() const;

  /// A peer has not told yet of all that this rank has called with it, so that find_recent() may
  /// find more.
  bool awaits_peers() const;

  /// Of this rank's last call of all ranks; 0: it has made none.
  uint64_t number() const;
  /// Whether anything was announced.
  bool has_calls() const { return has_calls_.load(std::memory_order_acquire); }
  /// The number of the last call that a rank has made; 0: none.
  uint32_t last_of(size_t rank) const;
  bool has_made(size_t rank, uint64_t number) const;
  /// One of the rank's last calls of all ranks that has this signature.
  std::optional<diagnosis::DescribedCall> find_call(size_t rank, uint32_t signature) const;
  /// A rank that has not made that call (0: none is meant), or its end of the transfers.
  std::optional<int> find_late(uint64_t number, std::span<const exec::Transfer> transfers) const;

 private:
  std::optional<CallDifference> find_in_last(uint64_t most) const TUTTI_REQUIRES(mutex_);
  std::optional<CallDifference> find(uint32_t number) const;
  CallDifference describe(uint32_t number, size_t peer) const;
  std::atomic<uint64_t>& recent(size_t rank, uint32_t number) const {
    return ranks_.words[rank].recent[number % ranks_.places];
  }

  const ComparedRanks ranks_;
  const size_t rank_;
  mutable Mutex mutex_;
  uint64_t number_ TUTTI_GUARDED_BY(mutex_) = 0;
  diagnosis::CallLog log_ TUTTI_GUARDED_BY(mutex_);
  exec::TransferBook book_ TUTTI_GUARDED_BY(mutex_);
  std::atomic<bool> has_calls_{false};
};

}  // namespace tutti::engines::streams
