// One named memory of a rank: who touched which bytes last, and what they hold.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "src/plan/verify_plan_order.h"
#include "src/plan/verify_plan_value.h"

namespace tutti::plan::verifier {

struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// Bytes [begin, end) of a range and their value, both counted from where the range begins.
struct Part {
  uint64_t begin = 0;
  uint64_t end = 0;
  ValueId value = kUndefined;
};

/// The thread that touches memory, and its knowledge of other threads.
struct Actor {
  Timestamp now;
  const Clock* clock = nullptr;
};

/// An earlier access that is not ordered before the present one.
struct Conflict {
  Timestamp earlier;
  bool wrote = false;
  uint64_t byte = 0;
};

class Memory {
 public:
  Memory(uint64_t bytes, Values& values);

  uint64_t bytes() const { return bytes_; }
  std::optional<Conflict> read(Range range, const Actor& actor, std::vector<Part>& parts);
  /// `parts` cover the range.
  std::optional<Conflict> write(Range range, const Actor& actor, std::span<const Part> parts);

 private:
  struct Segment {
    uint64_t end = 0;
    ValueId value = kUndefined;  // deltas from the beginning of the memory
    Timestamp writer;
    std::vector<Timestamp> readers;
  };
  using Segments = std::map<uint64_t, Segment>;

  Segments::iterator split(uint64_t at);

  uint64_t bytes_;
  Values* values_;
  Segments segments_;  // by their first byte; they cover the memory
};

}  // namespace tutti::plan::verifier
