#include "src/select/forced.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tutti::select {
namespace {

/// The algorithm that stands for the first of NCCL's names that this collective has; null: for
/// none.
const schedule::Algorithm* counterpart_of(const std::vector<std::string>& wanted,
                                          std::string_view collective,
                                          std::span<const schedule::Algorithm> algorithms) {
  for (const std::string& name : wanted) {
    const auto found = std::find_if(algorithms.begin(), algorithms.end(), [&](const auto& one) {
      return one.nccl_name == name && schedule::name_of(one.collective) == collective;
    });
    if (found != algorithms.end()) return &*found;
  }
  return nullptr;
}

}  // namespace

Forces forces_of(const Config& config, std::span<const schedule::Algorithm> algorithms) {
  Forces forces;
  for (const auto& [collective, algorithm] : config.algorithms) {
    forces[collective] = {algorithm, origin_of(config, "TUTTI_ALGORITHM")};
  }
  for (const auto& [collective, wanted] : config.nccl_algorithms) {
    const schedule::Algorithm* found = counterpart_of(wanted, collective, algorithms);
    if (found == nullptr) continue;
    if (config.deterministic && schedule::reduces(found->collective)) continue;
    forces.try_emplace(collective,
                       Force{std::string(found->name), origin_of(config, "TUTTI_NCCL_ALGO")});
  }
  return forces;
}

}  // namespace tutti::select
