// Places in the balanced binary tree over the numbers 0 .. count - 1.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tutti::runtime {

inline constexpr int kLevelShift = 48;  // of a node's place as one number

/// A node, wherever its values lie.
struct TreePlace {
  int level = 0;
  int64_t index = 0;

  int64_t number() const { return (int64_t{level} << kLevelShift) | index; }
  static TreePlace of(int64_t number) {
    return {static_cast<int>(number >> kLevelShift), number & ((int64_t{1} << kLevelShift) - 1)};
  }
  int64_t begin() const { return index << level; }
  int64_t end(int64_t count) const { return std::min(count, (index + 1) << level); }

  /// A node that has no sibling, as there are no such numbers, is its parent, too.
  bool rises(int64_t count) {
    const bool is_root = (int64_t{1} << level) >= count;
    if (is_root || index % 2 != 0 || (index + 1) << level < count) return false;
    ++level;
    index /= 2;
    return true;
  }
  bool joins(const TreePlace& right) const {
    return level == right.level && index % 2 == 0 && right.index == index + 1;
  }
};

}  // namespace tutti::runtime
