// Shared places: an exchange in which every rank folds one block for all becomes one in which each
// block has the same place in the frames of all ranks. The rank that folds a block names that place
// of every rank as its sources, and again as its targets: a machine whose devices are joined by a
// switch that reduces makes one load and one store of it (PTX's multimem), any other machine a fold
// of all sources into all targets.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <optional>

#include "src/plan/plan.h"

namespace tutti::plan {

/// The offset of the place in the frames, if the move folds one place of all ranks' slots into that
/// place of all of them.
std::optional<uint64_t> shared_place_of(const Plan& plan, const Op& op, uint32_t ranks);

/// Gives the plan shared places, if it is such an exchange of all `ranks`, staged, that folds lists
/// as they are, in one lane that no rank of another host takes part in. Else nothing happens. The
/// same on all ranks, since what one of them stages for, and reads of, each of the others is what
/// those fold and publish. The frame is as long as before: the rank's own block takes the place
/// that its result had.
bool share_places(Plan& plan, uint32_t rank, uint32_t ranks);

}  // namespace tutti::plan
