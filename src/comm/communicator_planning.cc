// The parts of Communicator about how its plans are made.
#include <algorithm>
#include <charconv>

#include "src/comm/communicator.h"

namespace tutti::comm {
namespace {

plan::Tuning tuning_of(const Config& config, uint64_t region_bytes, const Membership& members) {
  plan::Tuning tuning;
  static_assert(kMostInlineBytes == plan::kCellPayloadBytes);
  tuning.inline_bytes = static_cast<uint32_t>(config.inline_bytes);
  tuning.region_bytes = region_bytes;
  tuning.frame_bytes = std::min(config.frame_bytes, region_bytes / 2);
  tuning.cells_per_region = exec::kCellsPerRegion;
  // A rank that shares a core writes until there is no room, and then it is the others' turn: the
  // more room the fewer turns.
  const bool share_cores = members.domain_size() > members.cores();
  if (share_cores) tuning.long_pipeline_bytes = ~uint64_t{0};
  return tuning;
}

}  // namespace

PlannerOptions Communicator::planner_options() const {
  const Config& config = this->config();
  PlannerOptions planning;
  planning.algorithms = options_.algorithms;
  planning.group = membership_->group();
  planning.rank = membership_->rank();
  planning.tamper = options_.tamper;
  planning.calls = calls_.get();
  planning.tuning = tuning_of(config, options_.membership.layout.region_bytes(), *membership_);
  planning.cores = membership_->least_cores();
  planning.model = options_.model != nullptr ? *options_.model : model_.model;
  planning.model_origin = model_.origin;
  planning.weighs_single_copy = !config.single_copy_bytes;
  planning.forced = select::forces_of(config, options_.algorithms);
  return planning;
}

Status Communicator::check_algorithm(const CallOptions& options) const {
  if (options.algorithm.empty()) return {};
  const size_t colon = std::min(options.algorithm.find(':'), options.algorithm.size());
  const std::string name = options.algorithm.substr(0, colon);
  const bool known = std::any_of(options_.algorithms.begin(), options_.algorithms.end(),
                                 [&](const auto& algorithm) { return algorithm.name == name; });
  if (!known) {
    return Status::invalid_argument("no collective has an algorithm named '" + options.algorithm +
                                    "'; see docs/algorithms.md");
  }
  if (colon == options.algorithm.size()) return {};
  const std::string_view lanes = std::string_view(options.algorithm).substr(colon + 1);
  const char* end = lanes.data() + lanes.size();
  uint16_t number = 0;
  const auto read = std::from_chars(lanes.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number > 0) return {};
  return Status::invalid_argument("'" + options.algorithm +
                                  "': behind the colon stands the number of lanes, from 1");
}

}  // namespace tutti::comm
