#include "src/registry/algorithms.h"

// Declarations instead of includes, so that one line of the list is all an algorithm needs.
#define TUTTI_ALGORITHM(collective, name)   \
  namespace tutti::algorithms::collective { \
  schedule::Algorithm name();               \
  }
#include "src/registry/algorithms.inc"
#undef TUTTI_ALGORITHM

namespace tutti::registry {

std::span<const schedule::Algorithm> algorithms() {
  static const schedule::Algorithm kTable[] = {
#define TUTTI_ALGORITHM(collective, name) tutti::algorithms::collective::name(),
#include "src/registry/algorithms.inc"
#undef TUTTI_ALGORITHM
  };
  return kTable;
}

const schedule::Algorithm* find(schedule::Collective collective, std::string_view name) {
  for (const schedule::Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace tutti::registry
