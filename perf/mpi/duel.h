// Tutti against the MPI that this process runs under: interleaved rounds of the same loop.
#pragma once

#include <vector>

#include "perf/collectives/crew.h"
#include "perf/collectives/options.h"
#include "perf/collectives/rounds.h"

namespace tutti::perf {

/// Collective. All sizes of the sweep, free-running and stepped (with --fresh only that), the same
/// rounds on every rank.
///
/// Both variants use the same buffers in the same rotation (buffers.h). A broadcast runs in place,
/// because MPI's has one buffer; everything else out of place. Before anything is timed each
/// variant runs once and is checked; wrong data is a PerfError. The iterations are calibrated per
/// size, mode and variant, so that a round takes at least --round-ms, and each round of a variant
/// follows untimed calls of the same variant. Tutti goes first in even rounds, MPI in odd ones.
std::vector<Round> run_duel(const RankContext& context, const PerfOptions& options);

}  // namespace tutti::perf
