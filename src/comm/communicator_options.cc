#include "src/comm/communicator_options.h"

#include <algorithm>

#include "src/base/wait.h"

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

uint32_t spins_of(const Config& config, const Membership& members) {
  if (config.spin_polls > 0) return config.spin_polls;
  return spins_for({.sharing = members.domain_size(),
                    .cores = members.cores(),
                    .has_streams = members.domain_size() < members.ranks()});
}

}  // namespace

PlannerOptions planner_options_of(const CommunicatorOptions& options, const Membership& members,
                                  const AgreedModel& model, CallRecorder& calls) {
  const Config& config = *options.membership.env->config;
  PlannerOptions planning;
  planning.group = members.group();
  planning.rank = members.rank();
  planning.tamper = options.tamper;
  planning.cores = members.least_cores();
  planning.model = options.model != nullptr ? *options.model : model.model;
  planning.model_origin = model.origin;
  PlanEngine& host = planning.host;
  host.algorithms = options.algorithms;
  host.calls = &calls;
  host.tuning = tuning_of(config, options.membership.layout.region_bytes(), members);
  host.weighs_single_copy = !config.single_copy_bytes;
  host.forced = select::forces_of(config, options.algorithms);
  return planning;
}

exec::ExecutorOptions executor_options_of(const CommunicatorOptions& options,
                                          const Membership& members, trace::Recorder& recorder) {
  const Config& config = *options.membership.env->config;
  exec::ExecutorOptions execution;
  execution.rank = members.rank();
  execution.ranks = members.ranks();
  execution.communicator = options.membership.self.communicator;
  execution.epoch = options.membership.self.epoch;
  execution.spins = spins_of(config, members);
  execution.layout = options.membership.layout;
  execution.staging_stores = config.staging_stores;
  execution.slow_ns = config.slow_ns;
  execution.calls_before = config.calls_before;
  execution.first_progress = uint64_t{config.calls_before} + 1;
  execution.recorder = &recorder;
  return execution;
}

Result<std::unique_ptr<CallRecorder>> make_recorder(const CommunicatorOptions& options,
                                                    const Membership& members) {
  trace::RecorderOptions recording;
  recording.communicator = options.membership.self.communicator;
  recording.epoch = options.membership.self.epoch;
  recording.rank = members.rank();
  recording.ranks = members.ranks();
  recording.host = members.profiles()[static_cast<size_t>(members.rank())].host;
  return CallRecorder::create(*options.membership.env, recording);
}

}  // namespace tutti::comm
