// A wrong result, put so that a person can look for its cause: on which rank, where, what.
#pragma once

#include <optional>
#include <string>

#include "perf/collectives/crew.h"
#include "perf/collectives/pattern.h"

namespace tutti::perf {

/// The mistakes in one rank's buffers after a checked call.
struct BufferMistakes {
  Mistakes output;
  Mistakes input;  // which must not have changed

  size_t count() const { return output.count + input.count; }
};

/// The mistakes on all ranks, and the first wrong element of the first rank that has one.
struct Finding {
  size_t wrong_elements = 0;
  int wrong_ranks = 0;
  int rank = 0;
  bool in_input = false;
  Mistakes first;
};

/// Collective; the same on every rank. Empty: nothing is wrong.
std::optional<Finding> first_finding(const RankContext& context, const BufferMistakes& own);

/// "rank 2, element 17 of its output: expected 3, got 1; 5 wrong elements on 2 ranks"
std::string sentence_of(const Finding& finding);

}  // namespace tutti::perf
