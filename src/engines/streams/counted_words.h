// Words that count, for which a stream waits once a step: those of a pair of ranks, by which the
// sender says how many pieces it has sent and the receiver how many it has taken.
//
// Threads: values. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::engines::streams {

/// A word of a peer's that a stream waits for, once a step: `taken` of what it sends there, or
/// `sent`.
struct AwaitedWord {
  size_t peer = 0;
  bool sends = false;
  uint64_t first = 0, last = 0;  // values
  uint64_t step = 0;             // that waits for the first one

  /// The step that waits while the word is `value`; none if it waits no more.
  std::optional<uint64_t> step_at(uint64_t value) const {
    if (value >= last) return std::nullopt;
    return step + (value < first ? 0 : value + 1 - first);
  }
};

}  // namespace tutti::engines::streams
