// The calls of a planner, measured, say something of its model.
#include <algorithm>

#include "src/base/words.h"
#include "src/comm/planner.h"

namespace tutti::comm {

std::optional<select::Measured> EnginePlans::measured_of(schedule::Collective collective,
                                                         std::string_view algorithm,
                                                         int root) const {
  const std::string_view name = algorithm.substr(0, algorithm.find(':'));
  const auto found = std::find_if(
      engine_.algorithms.begin(), engine_.algorithms.end(),
      [&](const auto& one) { return one.collective == collective && one.name == name; });
  if (found == engine_.algorithms.end()) return std::nullopt;
  select::Measured measured;
  measured.algorithm = &*found;
  measured.parameters.ranks = options_.group->ranks();
  measured.parameters.root = std::max(root, 0);
  measured.parameters.tree = prices_.tree();
  if (name.size() < algorithm.size()) {
    const auto lanes = parse_integer<uint16_t>(algorithm.substr(name.size() + 1));
    if (!lanes || *lanes == 0 || *lanes > found->max_lanes) return std::nullopt;
    measured.parameters.lanes = *lanes;
  }
  return measured;
}

std::optional<select::Model> EnginePlans::refit(std::span<const select::Measured> calls) {
  return select::refit(options_.model, prices_, calls);
}

}  // namespace tutti::comm
