// The messages and bytes of one rank at each level, read from its own schedule.
//
// Threads: values. Units: bytes are in units of one `count`. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "src/schedule/algorithm.h"

namespace tutti::schedule {

/// Where the ranks live: equal on all of them.
struct LevelMap {
  size_t levels = 1;
  std::function<size_t(int, int)> level_of;  // of a message between two ranks
  std::function<uint32_t(int)> host_of;      // ranks of a host share its cores
};

/// The share of one `count` that a block is.
class BlockWidths {
 public:
  explicit BlockWidths(const Shape& shape);
  double of(const Schedule& schedule, std::span<const Block> blocks) const;

 private:
  std::vector<double> widths_[2];  // of input and output blocks
};

/// At one level.
struct RankTraffic {
  uint32_t sent = 0, received = 0;  // messages
  // How often the rank receives from the level behind a send to it, or the other way: so many
  // messages of a chain that goes through this rank at least wait for each other.
  uint32_t turns = 0;
  double bytes_sent = 0, bytes_received = 0;
  double published = 0;  // a multicast counted once
  // By its MOVE steps: half of the bytes that each reads and writes. A step that folds several
  // values, or copies the rank's own, belongs to the innermost level, one that only receives to
  // that of its message.
  double moved = 0;
};

/// By level.
std::vector<RankTraffic> traffic_of(const Schedule& schedule, int rank, const BlockWidths& widths,
                                    const LevelMap& map);

/// The most messages that the rank sends or receives.
uint32_t messages_of(const RankTraffic& traffic);

}  // namespace tutti::schedule
