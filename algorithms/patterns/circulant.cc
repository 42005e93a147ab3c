#include "algorithms/patterns/circulant.h"

namespace tutti::algorithms::patterns {

std::vector<Hop> circulant_hops(int ranks) {
  std::vector<Hop> hops;
  for (int window = ranks; window > 1;) {
    const int near = (window + 1) / 2;
    hops.push_back({.distance = near, .count = window - near});
    window = near;
  }
  return hops;
}

}  // namespace tutti::algorithms::patterns
