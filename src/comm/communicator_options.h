// All that a communicator is made of, and the options of its parts that follow from that.
//
// Threads: a value; pure functions, but for a recorder's file.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "src/bootstrap/watch.h"
#include "src/comm/call_recorder.h"
#include "src/comm/group_history.h"
#include "src/comm/membership.h"
#include "src/comm/planner.h"
#include "src/comm/progress_thread.h"
#include "src/exec/device.h"
#include "src/exec/host_executor.h"

namespace tutti::comm {

struct CommunicatorOptions {
  MembershipOptions membership;
  std::span<const schedule::Algorithm> algorithms;
  std::string origin;                         // a line of explain(): who started the rank
  bootstrap::Watch* watch = nullptr;          // tells when a peer's process is gone
  ProgressThread* progress_thread = nullptr;  // moves links for peers that use windows
  std::function<void(plan::Plan&)> tamper;    // PlannerOptions::tamper
  exec::Device* device = nullptr;             // null: calls on device memory cross to the host
  exec::StreamPlace device_place;             // the rank's; without a context it has none
  uint64_t timeout_ns = 0;                 // of calls that have none of their own; 0: the Config's
  uint32_t least_ctas = 1, most_ctas = 0;  // of a kernel that folds device memory; 0: Tutti's own
  const select::Model* model = nullptr;    // tests give ranks one; null: the membership's
  // Of the epochs before this one; null: this is the first.
  std::shared_ptr<GroupHistory> history = nullptr;
};

/// How the plans of the host's calls are made, by this model.
PlannerOptions planner_options_of(const CommunicatorOptions& options, const Membership& members,
                                  const AgreedModel& model, CallRecorder& calls);
exec::ExecutorOptions executor_options_of(const CommunicatorOptions& options,
                                          const Membership& members, trace::Recorder& recorder);
/// A flight recorder of the rank: one for each series of numbers of its calls.
Result<std::unique_ptr<CallRecorder>> make_recorder(const CommunicatorOptions& options,
                                                    const Membership& members);

}  // namespace tutti::comm
