// Memory that the ranks of a communicator of the stand-in share: one file of /dev/shm for each id,
// whose name goes when all ranks have come.
//
// Owns: the mapping. Threads: any. Errors: a null pointer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace softnccl {

inline constexpr int kMostRanks = 8;
inline constexpr size_t kAreaBytes = 128 << 10;  // what a rank shows at once
inline constexpr size_t kPairBytes = 16 << 10;   // a piece of a message

/// A message from one rank to another goes in pieces, one at a time.
struct Pair {
  std::atomic<uint64_t> sent;   // pieces
  std::atomic<uint64_t> taken;  // of them
  char data[kPairBytes];
};

struct BoardLayout {
  std::atomic<uint32_t> arrived;               // ranks
  std::atomic<uint64_t> devices[kMostRanks];   // of each rank: a number that tells them apart
  std::atomic<uint64_t> steps[kMostRanks];     // that each rank's kernels have made
  std::atomic<uint64_t> switches[kMostRanks];  // how often each rank gave memory back or took it
  Pair pairs[kMostRanks][kMostRanks];          // by sender, receiver
  char areas[kMostRanks][kAreaBytes];
};

/// Null: it cannot be had.
std::shared_ptr<BoardLayout> open_board(const char* id, int ranks);
/// For a new id: text of at most 40 bytes, with its end.
void name_board(char* id);

}  // namespace softnccl
