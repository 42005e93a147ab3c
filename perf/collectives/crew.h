// Runs a function once per rank: in forked processes, in threads of one process, or both.
#pragma once

#include <functional>

#include "perf/collectives/board.h"

namespace tutti::perf {

/// What a rank knows of its group.
struct RankContext {
  int rank;
  int ranks;
  Board& board;
};

struct CrewShape {
  int processes = 2;
  int threads = 1;  // ranks per process

  int ranks() const { return processes * threads; }
};

/// Rank r is thread r % threads of process r / threads. Returns the greatest return value.
///
/// A body that throws, and a process that dies, is reported on stderr with its rank (and signal),
/// fails the board and makes the result non-zero; the others then get kGraceSeconds to end by
/// themselves. Requires: no other thread exists yet (the processes are forked). With one process
/// nothing is forked.
using RankBody = std::function<int(const RankContext&)>;
int run_crew(const CrewShape& shape, const RankBody& body);

/// Runs the body for one rank of this process and turns an exception into a message and a 1.
int run_rank(const RankContext& context, const RankBody& body);

/// Binds the calling thread to the rank's own processor if there are two ranks and enough
/// processors. With more ranks the scheduler does better than a fixed choice.
void pin_if_two(const RankContext& context);

}  // namespace tutti::perf
