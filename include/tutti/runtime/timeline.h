// A timeline says which work runs where and after what: a value that is checked, simulated, drawn
// and executed (run_timeline.h), so that a simulated claim is one about what runs.
//
// Each rank has four tracks. A track runs its tasks one after the other, in the order of the list;
// tasks of different tracks overlap unless one is `after` the other. Communication meets: the k-th
// send of a channel with its k-th receive, the k-th collective of a channel on all members; it
// begins when the last of them is ready. The order within a channel is fixed by the timeline and
// equal on all ranks; priority decides only between channels.
//
// Units:   nanoseconds, bytes. Buffers are numbers of a rank's own; what they stand for is the
//          caller's affair. Parameters that nothing writes are no buffers.
// Errors:  check() returns what is wrong, one finding each; simulate() throws Error with the first.
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tutti/runtime/mesh.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

enum class Track { kCompute, kCommHigh, kCommLow, kCopy };
inline constexpr int kTracks = 4;
TUTTI_RUNTIME_API const char* name_of(Track track);

enum class TaskKind {
  kCompute,
  kCopy,
  kSend,
  kRecv,
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll
};
TUTTI_RUNTIME_API bool communicates(TaskKind kind);

struct TimelineTask {
  int rank = 0;
  Track track = Track::kCompute;
  TaskKind kind = TaskKind::kCompute;
  std::string name;
  Nanoseconds duration{0};  // as planned: of communication, from when all are ready
  std::vector<int> after;   // tasks of the same rank, by their place in the list
  int channel = -1;         // of communication
  Bytes bytes{0};           // of the message, or what each rank brings or gets; of an
                            // all_to_all, what goes from each rank to each
  Bytes chunk{0};  // sends, receives, all_reduces of more run as several calls, so that others wait
                   // for one of them at most; 0: one call
  int tag = 0;     // says which message or collective it is meant to be, equal on all members
  Bytes acquires{0};       // memory from its begin on
  Bytes releases{0};       // memory that is free from its end on
  int link = -1;           // of its rank, on which communication takes its share of the rate while
                           // others use it, too; -1: one of its own
  std::vector<int> reads;  // buffers
  std::vector<int> writes;
  int64_t item = -1;  // the work item that it does; -1: none
};

struct Timeline {
  int ranks = 0;
  int64_t items = 0;              // 0 .. items-1 are to be done, each exactly once
  Bytes memory{0};                // of each rank; 0: no limit
  std::vector<RankSet> channels;  // members; of a channel for messages: the sender, the receiver
  std::vector<TimelineTask> tasks;
};

/// When each task ran, in the order of the tasks: simulated, or measured.
struct TaskSpan {
  Nanoseconds ready{0};  // it is its turn on its track, and all it is after has ended
  Nanoseconds begin{0};  // of communication: when the last member is ready, if that is known
  Nanoseconds end{0};
};
struct History {
  std::vector<TaskSpan> spans;
};

/// A rule that a timeline breaks (memory and times of all tasks together are below 2^59):
///   1  every item is done exactly once
///   2  a task is after tasks of its own rank only
///   3  sends and receives match in order, tag and bytes
///   4  all members of a channel run the same collectives in the same order
///   5  no tasks wait for each other in a circle, even if no message is buffered
///   6  no rank can exceed its memory, in whatever order that is allowed its tracks advance
///   7  two accesses to a buffer, one of them a write, are ordered, and a read follows a write
/// That all ranks have equal plans is checked by agree() of exchange.h with fingerprint().
struct Finding {
  int rule = 0;
  int task = -1;  // -1: none in particular
  std::string sentence;
};
TUTTI_RUNTIME_API std::vector<Finding> check(const Timeline& timeline);
/// Throws Error with the first finding, if there is one.
TUTTI_RUNTIME_API void expect_sound(const Timeline& timeline);

/// Deterministic, in whole nanoseconds. Tasks on one link of a rank share its rate evenly while
/// they use the same direction of it: a message leaves its sender and comes to its receiver, a
/// collective does both at each member. Otherwise tracks do not slow each other down.
TUTTI_RUNTIME_API History simulate(const Timeline& timeline);

struct RankSummary {
  Nanoseconds computing{0};
  Nanoseconds communicating{0};  // some transfer is under way
  Nanoseconds exposed{0};        // of that, while nothing is computed
  Nanoseconds idle{0};           // nothing is computed, until the end of all ranks
  Bytes peak{0};
};
struct Summary {
  Nanoseconds makespan{0};
  std::vector<RankSummary> ranks;
};
TUTTI_RUNTIME_API Summary summarize(const Timeline& timeline, const History& history);

TUTTI_RUNTIME_API uint64_t fingerprint(const Timeline& timeline);

/// Pictures: histories of one timeline below each other, for example simulated and measured. A row
/// for each rank and track that has tasks.
struct NamedHistory {
  std::string name;
  History history;
};
TUTTI_RUNTIME_API std::string draw_svg(const Timeline& timeline,
                                       std::span<const NamedHistory> histories);
/// Chrome's trace format, which ui.perfetto.dev opens: a process for each history and rank.
TUTTI_RUNTIME_API std::string perfetto_json(const Timeline& timeline,
                                            std::span<const NamedHistory> histories);

}  // namespace tutti::runtime
