// Schedules as text: what `tutti print` prints, what counter-examples quote and what users write.
//
//   tutti-schedule 1            # the format's version
//   collective all_reduce
//   ranks 2
//   root 0                      # broadcast
//   lanes 1
//   input 2                     # two equal blocks
//   output at 0 1/2 1           # the same, by its boundaries
//   rank 0                      # 'rank 0 lanes 2' for a schedule with two lanes
//     scratch input[0] output[0:2]                       # three scratch blocks of these sizes
//     0: send input[0,1] -> 1
//     1: move output[0:2] <- input[0:2] + message 1 (tree)
//     2: lane 1 send output[0] -> 1 after 0,1
//   rank 1
//     ...
//
// A block list names spaces and indices: `input[0:3,7] scratch[1]` is input 0, 1, 2, 7, scratch 1;
// the end of a range is not in it. `nothing` is the empty list, `nobody` no peer, `none` no
// source. A step's number may be left out. Source lists are joined with ` + ` and folded in list
// order, or `(tree)`.
//
// Errors: parse() names line and column. Any bytes may be parsed and any Schedule printed.
// Threads: pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/layout.h"
#include "src/schedule/schedule.h"

namespace tutti::schedule {

/// A collective's shape with the programs of its ranks.
struct ScheduleSet {
  Shape shape;
  std::vector<Schedule> schedules;
};

std::string print(Fraction fraction);                             // "3/8", "2"
std::string print(Block block);                                   // "input[3]"
std::string print_blocks(std::span<const Block> blocks);          // "input[0:3]"
std::string print_step(const Schedule& schedule, uint32_t step);  // one line, no end
std::string print(const Shape& shape, std::span<const Schedule> schedules);

/// The inverse of print(). Bounded: a text may expand to kMaxTextWords words, of which a step takes
/// four.
inline constexpr uint32_t kMaxTextWords = 1u << 24;
Result<ScheduleSet> parse(std::string_view text);

/// True if both say the same, wherever their words lie. Both must be well formed, as parse() and
/// Builder make them.
bool same_program(const Schedule& a, const Schedule& b);

}  // namespace tutti::schedule
