// Runs a function once per rank. A crew is `processes` processes of `threads` threads, and every
// thread is a rank. Crews differ in how the processes are started and which board their ranks share
// (run_crew here, run_launched in launched.h); each process runs its ranks in the same way
// (run_process).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "perf/collectives/board.h"
#include "perf/collectives/children.h"

namespace tutti::perf {

/// A rank's knowledge of its group.
struct RankContext {
  int rank;
  int ranks;
  Board& board;
};

struct CrewShape {
  int processes = 2;
  int threads = 1;  // ranks per process
  Grace grace = {};

  int ranks() const { return processes * threads; }
};

using RankBody = std::function<int(const RankContext&)>;
/// The board as this rank holds it: one for all ranks, or a member's handle of something shared.
/// Called by the rank's own thread; may wait for the other ranks.
using BoardOf = std::function<std::shared_ptr<Board>(int rank)>;

/// Forks the processes of a crew on this host; their ranks share memory. With one process nothing
/// is forked. Returns the greatest return value.
///
/// A process that dies is reported on stderr with its ranks and signal, and fails the board like a
/// body that throws. One that has not ended when the shape's grace is over is killed. Requires: no
/// other thread exists yet.
int run_crew(const CrewShape& shape, const RankBody& body);

/// Runs the ranks of one process: rank r is thread r % threads of process r / threads. Returns the
/// greatest return value. A body that throws, or a board that cannot be had, is reported on stderr
/// with its rank, fails the board and counts as the exit code of its PerfError (others: 1). A rank
/// that has not ended when the shape's grace is over ends the program: a thread cannot be stopped.
int run_process(const CrewShape& shape, int process, const BoardOf& board_of, const RankBody& body);

/// "rank 3", or "ranks 6-7": those of a process.
std::string ranks_text(int process, int threads);

/// Binds the calling thread to the rank's own processor if there are two ranks and enough
/// processors. With more ranks the scheduler does better than a fixed choice.
void pin_if_two(const RankContext& context);

}  // namespace tutti::perf
