#include "src/comm/network_lanes.h"

#include <utility>

#include "src/comm/turns_alike.h"
#include "src/select/tree_of.h"

namespace tutti::comm {

std::vector<schedule::Algorithm> network_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                    const group::GroupView& group) {
  const schedule::Parameters parameters{.ranks = group.ranks(), .tree = select::tree_of(group)};
  std::vector<schedule::Algorithm> taken;
  for (const schedule::Algorithm& algorithm : algorithms) {
    if (algorithm.collective == schedule::Collective::kBarrier) continue;
    if (algorithm.shape(parameters).lanes > 1) continue;
    if (!takes_turns_alike(algorithm, parameters, false)) continue;
    if (!takes_turns_alike(algorithm, parameters, true)) continue;
    taken.push_back(algorithm);
    taken.back().max_lanes = 1;
  }
  return taken;
}

plan::Tuning network_tuning(plan::Tuning device) {
  plan::Tuning tuning = std::move(device);
  tuning.lands = true;
  tuning.stream_bytes = 1 << 20;
  tuning.long_slice_bytes = 32 << 20;  // the bounce buffer has what is under way
  tuning.most_short_slices = ~uint64_t{0};
  tuning.spanned_bytes = tuning.spanning_frame_bytes = 0;
  return tuning;
}

}  // namespace tutti::comm
