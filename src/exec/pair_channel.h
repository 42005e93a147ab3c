// Where the messages of one ordered pair of ranks lie, in the sender's arena.
//
//   the sender's line    how many bytes it has written, told after the first piece of a message
//   the receiver's line  how far it has read
//   heads                one line a message, a ring of kHeads
//   ring                 the bytes of messages that are too long for their head's line
//
// A short message lies in its head whole: the receiver waits for one line of another core, and has
// it all. Of a longer one the head tells that its first piece is written. Each side asks how far
// the other has come only when it can go no further by what it knows; that costs a line, too.
//
// Ordering: what a head or a count tells of is written before it (release), and read after it
// (acquire). Both counts and the numbers of heads only rise.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/exec/arena_map.h"
#include "src/exec/prefetch.h"

namespace tutti::exec {

struct PairHead {
  static constexpr uint64_t kShortBytes = kPrefetchedBytes - 2 * sizeof(uint64_t);

  Flag number;  // of the message that is here, from 1
  uint64_t bytes;
  std::byte payload[kShortBytes];  // of a short one
};
static_assert(sizeof(PairHead) == kPrefetchedBytes);

class PairChannel {
 public:
  static constexpr uint32_t kHeads = 64;
  /// The most that is written before the receiver is told. The ring holds two: both sides work.
  static constexpr uint64_t kPieceBytes = 128 << 10;
  static constexpr uint64_t kRingBytes = 2 * kPieceBytes;
  /// Of the whole channel.
  static constexpr uint64_t kBytes = (2 + kHeads) * kLineBytes + kRingBytes;

  explicit PairChannel(std::byte* base)
      : produced(*reinterpret_cast<Flag*>(base)),
        mark(*(&produced + 1)),
        consumed(*reinterpret_cast<Flag*>(base + kLineBytes)),
        read(*(&consumed + 1)),
        heads_(base + 2 * kLineBytes),
        ring_(heads_ + kHeads * kLineBytes) {}

  /// Messages begin with a line of their own.
  static constexpr uint64_t padded(uint64_t bytes) {
    return (bytes + kPrefetchedBytes - 1) / kPrefetchedBytes * kPrefetchedBytes;
  }
  /// Of the padded message.
  static constexpr uint64_t first_piece(uint64_t bytes) {
    return std::min(padded(bytes), kPieceBytes);
  }

  PairHead& head(uint64_t message) const {
    return *reinterpret_cast<PairHead*>(heads_ + message % kHeads * kLineBytes);
  }
  std::byte* at(uint64_t position) const { return ring_ + position % kRingBytes; }

  Flag& produced;  // bytes; behind, while only heads have told of what there is
  Flag& mark;      // a StagingMark, by the same count
  Flag& consumed;  // bytes
  Flag& read;      // heads

 private:
  std::byte* heads_;
  std::byte* ring_;
};

}  // namespace tutti::exec
