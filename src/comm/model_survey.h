// The model by which a communicator chooses: the one that its ranks measure when it is made, where
// they have none, and the one that it leaves to later ones of the same hosts, by how long its calls
// have taken.
//
// Owns: the model. Threads: the one that makes the communicator, or ends it. Lifetime: within what
// it is given. Errors: of a measurement: the communicator cannot be made.
#pragma once

#include <functional>
#include <span>

#include "src/base/wait_limit.h"
#include "src/comm/collectives.h"
#include "src/comm/communicator_options.h"
#include "src/comm/transfers.h"

namespace tutti::comm {

/// By which a network is measured: the parts of a communicator before its first call.
struct SurveyedCalls {
  exec::HostExecutor& executor;
  CallFrame& frame;
  Transfers& transfers;
  Failure& failure;
  CallBuffers buffers;
  std::function<void(bool rare)> idle;  // Communicator::idle
};

class ModelSurvey {
 public:
  ModelSurvey(const CommunicatorOptions& options, const Membership& membership)
      : options_(options), membership_(membership), model_(membership.model()) {}

  /// Equal on all ranks; it changes in the measurements only.
  const AgreedModel& model() const { return model_; }
  /// Collective, where there is something to measure: what copies between the ranks of a host cost.
  Status measure_host(const exec::HostExecutor& executor, const WaitLimit& wait_limit);
  /// Collective, likewise: what the network costs.
  Status measure_network(const SurveyedCalls& calls, const WaitLimit& wait_limit);
  /// For later communicators of the same hosts, if this is one whose calls tell something.
  void keep(EnginePlans& plans, const trace::Recorder& recorder) const;

 private:
  const Config& config() const { return *options_.membership.env->config; }
  bool measures_host() const;
  bool is_first_of_host() const;
  bool is_kept() const;
  Status add_up(std::span<double> numbers, const SurveyedCalls& calls, const WaitLimit& wait_limit);
  template <class Work>
  static Status drive(Work& work, Status begun, const SurveyedCalls& calls,
                      const WaitLimit& wait_limit);

  const CommunicatorOptions& options_;
  const Membership& membership_;
  AgreedModel model_;
};

}  // namespace tutti::comm
