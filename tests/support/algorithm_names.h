// The algorithms that can be forced, as docs/algorithms.md lists them for users.
//
// Errors: an empty list if the page cannot be read or has another form; callers treat it as a
// failure. Threads: no state.
#pragma once

#include <string>
#include <vector>

namespace tutti::testing_support {

struct NamedAlgorithm {
  std::string collective;
  std::string name;
  bool canonical = false;
  int max_lanes = 1;
  bool equal_counts = false;  // and no others: it runs no v-collective
};

std::vector<NamedAlgorithm> listed_algorithms();

}  // namespace tutti::testing_support
