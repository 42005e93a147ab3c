// How far a plan has come with each peer, as the flight recorder shows it.
//
// Only slow paths come here, so running a call counts nothing: what has arrived follows from where
// the lanes stand and from what they would wait for.
//
// Owns: its working memory, taken when it is made. Threads: those of CallState. Errors: none.
#pragma once

#include <cstdint>
#include <vector>

#include "src/exec/host_machine.h"
#include "src/plan/exchange.h"

namespace tutti::exec {

/// Where the lanes of a rank stand in a plan.
struct PlanStanding {
  const plan::Plan* plan = nullptr;
  const plan::Position* lanes = nullptr;  // one for each of the plan's

  /// Of the first lane that is not done.
  ProgressSource::StepPlace step() const;
};

class PlanProgress {
 public:
  /// Both outlive it.
  PlanProgress(const CallState& state, const HostMachine& machine);

  void tell(const PlanStanding& at, trace::Recorder& recorder, const Stall& stall);

 private:
  bool is_complete(const PlanStanding& at, const plan::Exchange& exchange) const;
  void add(const PlanStanding& at, const plan::Exchange& exchange);
  void tell_lines(trace::Recorder& recorder, const Stall& stall) const;

  const CallState& state_;
  const HostMachine& machine_;
  struct Tally {
    uint64_t bytes = 0, moved = 0;
    uint32_t messages = 0, complete = 0;
  };
  std::vector<Tally> tally_;  // by rank and direction; empty without a recorder
};

}  // namespace tutti::exec
