// Reads flight recorders: of this process or another one, running or stopped.
//
// Owns: what it returns are copies. Threads: any. Units: nanoseconds of CLOCK_MONOTONIC, which the
// processes of a host share. Errors: kRemoteError for a file that is no recorder of this version;
// kSystemError where a process cannot be looked into (it needs the same user).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/trace/format.h"

namespace tutti::trace {

struct CallRecord {
  uint64_t order = 0;
  uint32_t number = 0;  // of the call; 0: send and receive, or not begun
  State state = State::kNone;
  std::string collective, type, op, algorithm;  // empty where there is none
  int root = -1;                                // or peer
  uint64_t bytes = 0;
  uint64_t start_ns = 0, end_ns = 0;  // 0: not known
  int waits_for = -1;                 // the last peer it waited for longer than its spinning
  uint32_t lane = 0, step = 0;
  uint64_t wait_ns = 0;  // since when
};

struct Snapshot {
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  int rank = 0;
  int ranks = 0;
  uint64_t process = 0;
  std::string host;
  uint64_t missed = 0;
  std::vector<CallRecord> calls;  // in order
};

/// `file` may change while it is read, and may hold anything.
Result<Snapshot> read(std::string_view file);

/// All recorders of a process, by communicator.
Result<std::vector<Snapshot>> read_process(pid_t process);

/// The processes that have recorders and that this user may look into.
std::vector<pid_t> find_processes();

/// A table; times are relative to `now_ns`. At most the last `calls` calls of it.
std::string to_text(const Snapshot& snapshot, uint64_t now_ns, size_t calls = ~size_t{0});
/// One line for a call, without a line end.
std::string to_line(const CallRecord& call, uint64_t now_ns);
std::string to_json(const std::vector<Snapshot>& snapshots);

}  // namespace tutti::trace
