// nccl-tests' NCCL_TESTS_SPLIT: several groups that run the same operation at the same time.
#pragma once

#include <optional>
#include <string_view>

#include "perf/collectives/crew.h"

namespace tutti::perf {

/// One rank's place in the group that it measures with. Without a split, all ranks.
struct Subgroup {
  int color = 0;
  int rank = 0;
  int ranks = 1;
  int leader = 0;  // the rank, of all ranks, that is rank 0 of this group
};

inline Subgroup whole_group(const RankContext& context) {
  return {0, context.rank, context.ranks, 0};
}

/// The color of a process by "AND 0x7", "&7", "OR 1", "MOD 8", "%8", "DIV 0b10" ... Errors:
/// PerfError.
int color_of(std::string_view split, int process);

/// The color of a process by a mask that is ANDed: hexadecimal digits, with 0x or without. Errors:
/// PerfError.
int color_by_mask(std::string_view mask, int process);

/// By NCCL_TESTS_SPLIT_MASK or NCCL_TESTS_SPLIT; processes of one color, in their order, are a
/// group. Ranks of one process stay together. Errors: PerfError.
Subgroup subgroup_of(const RankContext& context, int ranks_per_process);

}  // namespace tutti::perf
