// A call in a graph: a task that is run anew whenever the graph runs and its streams have come.
//
// The graph may outlive the communicator. So a run asks the gate, which the communicator closes
// before it ends: behind it a run does nothing but let its streams go on.
//
// Owns: the call's host memory (its host stagings). Threads: arrived() from threads of the device's
// driver, which may neither use the device nor wait long; the rest is the caller's. Errors: a run's
// are the communicator's.
#pragma once

#include <memory>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/replay_gate.h"
#include "src/operation/engine.h"

namespace tutti::operation {

class CapturedTask {
 public:
  /// The engine lives as long as the process. `gate`: of the task's communicator.
  CapturedTask(Task task, StreamEngine& engine, std::shared_ptr<comm::ReplayGate> gate);
  CapturedTask(const CapturedTask&) = delete;
  CapturedTask& operator=(const CapturedTask&) = delete;

  /// While it is put together.
  Task& task() { return task_; }
  void add(std::shared_ptr<exec::HostStaging> staging) { stagings_.push_back(std::move(staging)); }
  const std::vector<std::shared_ptr<exec::HostStaging>>& stagings() const { return stagings_; }

  /// One of its stagings' streams has come, in a run of the graph. All of them must, once for a
  /// run.
  void arrived();

 private:
  Status run(size_t& fenced);

  Task task_;  // each run has a copy
  std::vector<std::shared_ptr<exec::HostStaging>> stagings_;
  StreamEngine& engine_;
  const std::shared_ptr<comm::ReplayGate> gate_;
  Mutex mutex_;
  size_t arrived_ TUTTI_GUARDED_BY(mutex_) = 0;  // of this run
};

}  // namespace tutti::operation
