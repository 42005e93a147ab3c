// Reads flight recorders: of this process or another one, running or stopped.
//
// Owns:    what it returns are copies.
// Threads: any.
// Units:   nanoseconds of CLOCK_MONOTONIC, which the processes of a host share.
// Errors:  kRemoteError for a file that is no recorder of this version; kSystemError where a
//          process cannot be looked into (it needs the same user).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/trace/format.h"

namespace tutti::trace {

/// One direction of what a call exchanges with one peer.
struct ExchangeRecord {
  uint32_t peer = 0;
  bool sends = false;
  std::string type;  // of a transfer
  uint32_t number =
      0;  // of a transfer: the peer's with this number, the other way, is its other end
  uint64_t bytes = 0;
  uint64_t moved = 0;  // of the bytes
  uint32_t messages = 0;
  uint32_t complete = 0;  // of the messages
  // The peer's state as it was known then:
  PeerState state = PeerState::kUnknown;
  uint32_t call = 0;   // the last collective it entered
  uint32_t blame = 0;  // whom it waits for, or gave up because of
};

/// A message between hosts of a call on a device: one of a slice, or a piece of a transfer.
struct MessageRecord {
  uint64_t number = 0;  // rising over all calls
  uint32_t peer = 0;
  uint32_t lane = 0;
  bool sends = false;
  uint64_t slice = 0;
  uint64_t bytes = 0;
  uint64_t begin_ns = 0;  // it lay in the bounce buffer, or there was room for it
  uint64_t end_ns = 0;    // it was out, or had come; 0: not yet
};

struct CallRecord {
  uint64_t order = 0;
  Series series = Series::kCollective;
  uint32_t number = 0;  // of the call, in its series; 0: not begun
  RecordState state = RecordState::kNone;
  std::string collective, type, op, algorithm;  // empty where there is none
  int root = -1;                                // or peer
  uint64_t bytes = 0;
  uint64_t start_ns = 0, end_ns = 0;  // 0: not known
  int waits_for = -1;                 // the last peer it waited for longer than its spinning
  uint32_t lane = 0, step = 0;
  uint64_t wait_ns = 0;  // since when
  // Of sends and receives, and of a collective that has waited for long and is not done.
  std::vector<ExchangeRecord> exchanges;
  uint32_t left_out = 0;                // exchanges that the file had no room for
  std::vector<MessageRecord> messages;  // that the file still has, in the order of their begins
};

/// Why a communicator failed, and when.
struct FailureRecord {
  std::string reason;
  uint64_t at_ns = 0;   // 0: it has not
  uint64_t wall_s = 0;  // since 1970
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
  FailureRecord failure;          // of a record
};

/// `file` may change while it is read, and may hold anything.
Result<Snapshot> read(std::string_view file);

/// The recorders of a process, by communicator, and why others could not be read.
struct Recorders {
  std::vector<Snapshot> snapshots;
  std::vector<Status> refused;
};
Result<Recorders> read_process(pid_t process);

/// The processes that have recorders and that this user may look into.
std::vector<pid_t> find_processes();

/// A table; times are relative to `now_ns`, or to the failure.
std::string to_text(const Snapshot& snapshot, uint64_t now_ns);
/// One line for a call, without a line end.
std::string to_line(const CallRecord& call, uint64_t now_ns);
/// The exchanges of the call, a line for each without its line end, those with the most missing
/// first: at most `most`, and one that says how many more there are.
std::vector<std::string> to_lines(const CallRecord& call, size_t most);
/// The messages of a call on devices between hosts, likewise, in order; times are since the first.
std::vector<std::string> to_message_lines(const CallRecord& call, size_t most);
/// The last call and its state when the communicator failed, in a few words: "in all_reduce, call
/// 2, after it had waited 1.4 s for rank 3". Empty if nothing was under way.
std::string last_call_text(const Snapshot& snapshot, uint64_t now_ns);
std::string to_json(const std::vector<Snapshot>& snapshots);

}  // namespace tutti::trace
