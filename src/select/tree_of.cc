#include "src/select/tree_of.h"

#include <utility>
#include <vector>

namespace tutti::select {

size_t first_level_of(const group::GroupView& group) {
  size_t first = 0;
  while (first + 1 < group.levels() && group.level(first + 1).reach.map) ++first;
  return first;
}

schedule::NodeTreePointer tree_of(const group::GroupView& group) {
  std::vector<std::vector<uint32_t>> levels;
  for (size_t i = first_level_of(group); i < group.levels(); ++i) {
    levels.push_back(group.level(i).nodes);
  }
  return schedule::NodeTree::make(std::move(levels)).value();  // a group's levels are nested
}

}  // namespace tutti::select
