// How the ranks of a host open together what all of them need: each gives the others descriptors,
// and all of them can use it, or none does and all say whose fault it is.
//
// Threads: the one that opens the device. Errors: of first_problem() kUnsupported, on all ranks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/base/io.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

/// For an exchange: that a rank can, or why not; as long as an exchange takes.
std::string outcome_text(const Status& status);
/// The first rank's that cannot, in its words. A text that is no outcome_text() of an error is
/// none.
Status first_problem(const std::vector<std::string>& texts, const exec::DeviceGroup& group);

using Descriptors = std::vector<Result<Fd>>;  // by rank

Status give_to_all(const exec::DeviceGroup& group, int descriptor);
/// The descriptor that each rank gave, which had this number there. Of all ranks, since some may
/// have been given before another rank found that it cannot.
Descriptors take_from_all(const exec::DeviceGroup& group, std::span<const int> numbers);

}  // namespace tutti::engines::cuda
