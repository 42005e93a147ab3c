// Which steps of one rank touch which blocks: the facts the hazard pass asks for, computed once per
// rank.
//
// In place, input and output are one buffer, so an access to a block of one space is also one to
// the overlapping blocks of the other.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/plan/step_order.h"
#include "src/schedule/layout.h"
#include "src/schedule/schedule.h"

namespace tutti::plan {

class Touches {
 public:
  Touches(const schedule::Shape& shape, const schedule::Schedule& schedule, bool in_place);

  /// Which of the rank's steps come before which.
  const StepOrder& order() const { return order_; }
  /// The steps that write any byte of the block, rising.
  std::span<const uint32_t> writes(schedule::Block block) const { return at(block).writes; }
  /// The first two steps that read or write any byte of the block, in one lane; in several, all.
  std::span<const uint32_t> touches(schedule::Block block) const { return at(block).touches; }

 private:
  struct BlockTouches {
    std::vector<uint32_t> touches;  // rising
    std::vector<uint32_t> writes;   // rising
  };

  const BlockTouches& at(schedule::Block block) const {
    return facts_[static_cast<size_t>(block.space())][block.index()];
  }
  bool copies_to_itself(const schedule::Schedule& schedule, const schedule::Step& step) const;
  void touch(schedule::Block block, uint32_t step, bool write);
  void touch_one(schedule::Block block, uint32_t step, bool write);

  const schedule::Shape& shape_;
  int rank_;
  bool in_place_;
  StepOrder order_;
  std::vector<BlockTouches> facts_[3];
};

/// In place: the blocks of the other user space that overlap `block` of rank `rank`, as [first,
/// last).
std::pair<uint32_t, uint32_t> aliases(const schedule::Shape& shape, int rank,
                                      schedule::Block block);

}  // namespace tutti::plan
