// Sends and receives of an ordered pair of ranks as each of the two called them, for the other one
// to compare: streams cannot see that a send and its receive differ, so the host must.
//
// Transfers of a pair are counted, and the n-th send meets the n-th receive. Each end writes its
// own entry before it looks at the other's, so the second one of two finds a difference. A log
// holds the last kEntries; since an entry also tells a hash of all before it, a difference that was
// written over shows later.
//
// Owns: nothing; the entries lie in the arena of the rank that writes them. Threads: a log has one
// writer. Errors: none; what is not known any more, or was written over meanwhile, is nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "src/schedule/schedule.h"

namespace tutti::exec {

/// One end of a transfer.
struct CalledTransfer {
  uint64_t bytes = 0;
  std::optional<schedule::Collective> part_of = {};  // a v-collective; none: a send or a receive
  bool in_exchange = false;  // one group has much for the peer and much from it
  uint8_t slot = 0;          // of its first piece, where its graph fixes that
  bool by_host = false;      // its options send it there
  uint32_t mark = 0;         // RegisteredTransfers'

  bool operator==(const CalledTransfer&) const = default;
};

class TransferLog {
 public:
  static constexpr uint32_t kEntries = 256;
  struct CalledEntry {
    std::atomic<uint64_t> word;  // number << 32 | a hash of all up to it; 0: none, or being written
    std::atomic<uint64_t> what;  // the CalledTransfer
  };

  explicit TransferLog(CalledEntry* entries) : entries_(entries) {}

  /// Tells the other end of the next transfer; returns its number, from 1.
  uint32_t begin(const CalledTransfer& transfer);
  /// Of the last one.
  uint32_t number() const { return number_; }

  /// A transfer as its two ends called it.
  struct Disparity {
    uint32_t number = 0;
    CalledTransfer mine, theirs;  // equal if it was an earlier one that differed
  };
  /// Whether the other end has told of transfer `number`, which this one has.
  static bool has_begun(const CalledEntry* theirs, uint32_t number);
  /// Whether transfer `number` differs between this log and the other end's, as far as is known.
  std::optional<Disparity> compare(const CalledEntry* theirs, uint32_t number) const;
  /// The first difference among the last `most` transfers.
  std::optional<Disparity> compare_last(const CalledEntry* theirs, uint32_t most) const;

 private:
  CalledEntry* entries_;
  uint32_t number_ = 0;
  uint32_t hash_ = 0;
};

/// "rank 1: send of 400 bytes; rank 0: recv of 404 bytes", with the names of source and target.
std::string transfers_text(const std::string& source, const CalledTransfer& sent,
                           const std::string& target, const CalledTransfer& received);

}  // namespace tutti::exec
