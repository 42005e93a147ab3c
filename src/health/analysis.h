// The flight recorders of all ranks of a communicator, joined: which call they differ in, who is
// missing, who does not come, and who or which path is slow.
//
// Calls are aligned by their numbers, so clocks of different hosts are never compared: only
// durations are. The verdicts are those of C4D (arXiv 2406.04594): computing or communication, hang
// or slow. A rank that others wait for in a call that it has not entered computes, or is stuck
// outside of the library; where all have entered, the transfer that stands still is the link's
// fault. The rank for which all others wait in call after call, and which waits the least itself,
// is slow at computing; slow transfers are judged by their matrix (delay_matrix.h).
//
// Threads: pure. Units: nanoseconds. Errors: recorders that cannot be joined are named with why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/health/delay_matrix.h"
#include "src/trace/reader.h"

namespace tutti::health {

enum class HealthKind : uint8_t {
  kMismatch,           // ranks made different calls under one number
  kMissing,            // no recorder of a rank
  kComputingHang,      // ranks have not entered a call in which others wait
  kCommunicationHang,  // all have entered it, and a transfer stands still
  kComputingSlow,      // all others wait for one rank, call after call
  kCommunicationSlow,  // a sender, receiver, rank or path
};
/// "computing hang"
const char* name_of(HealthKind kind);

struct HealthVerdict {
  HealthKind kind = HealthKind::kMismatch;
  uint64_t communicator = 0;
  uint32_t call = 0;       // its number; 0: of none in particular
  std::vector<int> ranks;  // to blame, ascending; of a path the sender and the receiver in order
  std::optional<SlowPart> part;
  std::string sentence;  // one line
  std::vector<std::string> evidence;
};

/// The recorder of one rank, and when it was read by its own clock.
struct RankRecorder {
  trace::Snapshot snapshot;
  uint64_t now_ns = 0;  // 0: when it failed, or nobody knows
};

struct HealthRules {
  uint64_t hang_ns = 10'000'000'000;  // a call that has run for so long hangs; of a failed one any
  uint32_t calls = 10;                // that a verdict of slowness rests on at the least
  double share = 0.9;                 // of calls in which the slow rank is the last one
  double late = 0.5;                  // of its own time in a call by which others wait longer
  MatrixRule matrix;
};

/// The findings about one communicator in one epoch.
struct CommunicatorHealth {
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  int ranks = 0;
  std::vector<int> present;  // ranks with a recorder
  uint64_t calls = 0;        // that more than one of them knows
  std::vector<HealthVerdict> verdicts;
  std::optional<DelayMatrix> delays;
  std::string delays_of;  // "recv of 1048576 bytes"
  std::vector<std::string> set_aside;
};

/// Recorders of older epochs of a communicator are set aside, those that are no ring of rising
/// numbers are too. Sorted by communicator.
std::vector<CommunicatorHealth> analyse(const std::vector<RankRecorder>& recorders,
                                        const HealthRules& rules = {});

}  // namespace tutti::health
