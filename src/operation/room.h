// Memory for lists that grow one by one, taken before anything that may not fail.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tutti::operation {

/// For so many; where it takes memory, for `least` or twice as many.
template <class Kept>
void make_room(std::vector<Kept>& list, size_t wanted, size_t least = 0) {
  if (list.capacity() < wanted) list.reserve(std::max(2 * wanted, least));
}

}  // namespace tutti::operation
