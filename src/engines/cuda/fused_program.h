// A short call as one kernel runs it: the program that FusedMachine makes of a rank's plan, and the
// memory by which the kernels of all ranks talk.
//
// A message travels as *lines* of 16 bytes: twice four bytes of the message and the call's sequence
// number, so that each 8 bytes say by themselves whether they have come; no wider store is promised
// to arrive whole. The sender stores them into a *mailbox* of its own in the memory of the reader,
// which polls its own memory. There are two mailboxes for each sender, taken in turn, and nothing
// is ever cleared: a sequence number is that of the rank's last call and one more.
//
//   FusedMemory, of each rank, in its device's memory, mapped by all:
//     sequences    by thread block: the number of the last call
//     credits      by peer: the number of the last call that the peer is past
//     mailboxes    by parity of the number, then by sender
//
// A sender waits until the reader is past the call before the last one, whose lines lie where its
// own will: so a rank that only sends never runs ahead of its readers. A rank says so at the
// beginning of its next call, so the credit costs no time of its own. Numbers have 32 bits, and 0
// and 1 are none: behind 2^32 - 1 comes 2, so that parities alternate. Lines that no call has
// stored to since the numbers began anew would look like lines of this round, so the first call
// behind the last two numbers clears the mailboxes of each.
//
// Threads: values. Units: bytes. Errors: none. Everything here compiles for devices, too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/engines/cuda/fold_element.h"

namespace tutti::engines::cuda {

inline constexpr uint32_t kMostFusedRanks = 16;
inline constexpr uint32_t kMostFusedSteps = 64;
inline constexpr uint32_t kMostFusedOperands = 128;
/// No grid has more, and all blocks of one are on the device at once. Grids may have fewer, and
/// those of ranks and calls may differ: who stores a line is the same to whoever awaits it.
inline constexpr uint32_t kFusedBlocks = 8;
inline constexpr uint32_t kFusedThreads = 512;

inline constexpr uint32_t kLineBytes = 16;
/// Of the message, in a line.
inline constexpr uint32_t kLinePayload = 8;
/// A block has at least so many lines of each step, so that shorter messages are one block's.
inline constexpr uint32_t kLeastLinesOfBlock = kFusedThreads;

/// Sequence numbers.
TUTTI_BOTH uint32_t number_after(uint32_t number) {
  const uint32_t next = number + 1;
  return next < 2 ? 2 : next;
}
TUTTI_BOTH uint32_t number_before(uint32_t number) { return number == 2 ? ~0u : number - 1; }
/// Whether `number` is not before `other`, of two that are near each other.
TUTTI_BOTH bool is_reached(uint32_t number, uint32_t other) {
  return static_cast<int32_t>(number - other) >= 0;
}
/// Whether the mailboxes of a call are cleared when all ranks' numbers are about to begin anew.
TUTTI_BOTH bool is_last_of_parity(uint32_t number) { return number >= ~1u; }

/// Where the parts of a rank's FusedMemory lie. Equal on all ranks.
struct FusedLayout {
  uint64_t ranks = 0;
  uint64_t mailbox_bytes = 0;  // a multiple of kLineBytes

  static constexpr uint64_t kSequences = 0, kCredits = 256, kMailboxes = 512;
  static_assert(kFusedBlocks * sizeof(uint64_t) <= kCredits);
  static_assert(kMostFusedRanks * sizeof(uint64_t) <= kMailboxes - kCredits);

  /// Whose mailboxes take so much memory, altogether.
  static constexpr FusedLayout within(uint64_t bytes, uint64_t ranks) {
    constexpr uint64_t kPad = 256;
    return {ranks, ranks == 0 ? 0 : bytes / (2 * ranks) / kPad * kPad};
  }
  constexpr uint64_t parity_bytes() const { return ranks * mailbox_bytes; }
  constexpr uint64_t bytes() const { return kMailboxes + 2 * parity_bytes(); }
  /// The one of parity 0.
  constexpr uint64_t mailbox(uint64_t sender) const { return kMailboxes + sender * mailbox_bytes; }
};

/// Byte offsets in the words by which kernel and host know of each other (streams::FusedWords).
inline constexpr uint64_t kFusedStop = 0, kFusedWaiting = 128, kFusedExpired = 192;
inline constexpr uint64_t kFusedFinished = 256, kFusedBegun = 384;
inline constexpr uint32_t kFusedRecent = 16;  // words at kFusedBegun

/// targets <- fold(sources), in the order of the sources, one by one or in a balanced tree
/// (types::FoldOrder). Without elements it is a token: a line
/// that says no more than that the sender has come so far.
struct FusedStep {
  uint32_t count = 0;  // elements
  uint16_t first = 0;  // operand: the targets, then the sources
  uint8_t targets = 0, sources = 0;
  uint16_t scaled = 0;  // bit i: source i is multiplied first
  uint8_t divides = 0, in_tree = 0;
};

/// A launch's parameter, passed by value. Addresses are those of the device.
struct FusedProgram {
  uint32_t rank = 0, ranks = 0;
  uint32_t steps = 0;
  uint32_t pushed_to = 0;  // a bit for each rank that gets lines
  FactorIs factor_is = FactorIs::kDouble;
  uint32_t least_lines = kLeastLinesOfBlock;
  uint32_t signature = 0;  // of the call: equal on ranks that make the same one
  uint64_t factor = 0;
  int64_t divisor = 1;      // of integers
  uint64_t timeout_ns = 0;  // of the waits of a thread, all together; 0: none
  uint64_t place = 0;       // streams::PendingCall's, of an eager call; 0: of a graph
  uint64_t memory = 0;      // this rank's FusedMemory
  uint64_t parity_bytes = 0;
  uint64_t words = 0;                      // streams::FusedWords
  uint64_t credits[kMostFusedRanks] = {};  // by peer: this rank's word in its FusedMemory
  FusedStep step[kMostFusedSteps] = {};
  uint64_t address[kMostFusedOperands] = {};  // of a line: the one of parity 0
  uint8_t line_of[kMostFusedOperands] = {};   // 0: memory; else the peer at the other end, plus 1
};
static_assert(sizeof(FusedProgram) <= 4096, "more does not fit into a launch");

}  // namespace tutti::engines::cuda
