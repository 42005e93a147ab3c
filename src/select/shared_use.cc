#include "src/select/shared_use.h"

#include <utility>

namespace tutti::select {

Usage direct_use(Usage usage, int ranks) {
  schedule::LevelCost& cost = usage.levels.back().cost;
  cost.moved = cost.bytes;
  cost.messages += static_cast<uint32_t>(ranks - 1);
  ++cost.depth;
  return usage;
}

// Of `s` bytes on each of n devices, all n loads of a block read s bytes of each device, and bring
// s / n to the one that folds; the store sends s / n of each, and brings s to each. All is copied
// into the ring, and out of it.
Usage shared_use(Usage usage, int ranks) {
  constexpr double kCopied = 2;
  schedule::LevelCost& cost = usage.levels.back().cost;
  cost.bytes = cost.path = 1 + 1.0 / ranks;
  cost.moved = cost.bytes + kCopied;
  return usage;
}

}  // namespace tutti::select
