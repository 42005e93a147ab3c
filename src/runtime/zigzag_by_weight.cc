#include <algorithm>
#include <numeric>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "tutti/runtime/sharding.h"

namespace tutti::runtime {

Sharding zigzag_by_weight(int64_t size, int64_t block, std::span<const int64_t> weights,
                          int ranks) {
  check_ranks(ranks);
  require(size >= 0 && block >= 1, size, " elements in blocks of ", block,
          " cannot be; give blocks of 1 or more");
  const int64_t count = size / block + (size % block != 0);
  require(std::ssize(weights) == count, weights.size(), " weights for ", count,
          " blocks; give one a block");
  for (size_t b = 0; b < weights.size(); ++b) {
    require(weights[b] >= 0, "block ", b, " has weight ", weights[b], "; give 0 or more");
  }
  std::vector<int> order(weights.size()), owner(weights.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return weights[at(a)] > weights[at(b)]; });
  for (int64_t i = 0; i < count; ++i) {
    const int place = static_cast<int>(i % (2 * int64_t{ranks}));
    owner[at(order[at(i)])] = place < ranks ? place : 2 * ranks - 1 - place;
  }
  return blocks(std::span(&size, 1), block, owner, ranks);
}

}  // namespace tutti::runtime
