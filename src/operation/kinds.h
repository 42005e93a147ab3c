// Every kind of operation, by the names of its calls. A new kind is a line of kinds.inc and
// two functions, which say how its calls are named and what one of them would do.
//
// Threads: explain(): as the communicator's calls. Errors: kInvalidArgument for a name that no kind
// has, with all that there are.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/operation/question.h"

namespace tutti::operation {

/// Of every kind, in the order of the table.
std::vector<std::string> names_of_calls();

/// The text of tuttiExplain.
Result<std::string> explain(const Question& question);

}  // namespace tutti::operation
