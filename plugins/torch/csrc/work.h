// The handle of one call: c10d's Work with a future, over an operation that a lane runs.
//
// Owns:    its operation, and so the tensors, until it has run; the results for as long as it
//          lives.
// Threads: any, at any time.
// Errors:  wait() throws what the operation did; a wait that ends by its own limit leaves the
//          operation and the communicator as they are.
// Units:   milliseconds.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operation.h"

namespace tutti_torch {

class Lane;
class Recording;

/// The facts about a call that are known when it is made.
struct Call {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* title = "";           // for profiles and messages: "tutti:all_reduce"
  std::vector<at::Tensor> inputs;   // for profiles
  std::vector<at::Tensor> outputs;  // the value of the future
  std::chrono::milliseconds timeout{0};
  uint64_t sequence = 0;
  int rank = -1;
  int source = -1;  // of a receive
};

class WorkTutti : public c10d::Work {
 public:
  WorkTutti(Call call, Operation operation, std::shared_ptr<Lane> lane);

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  std::vector<at::Tensor> result() override { return call_.outputs; }
  int sourceRank() const override { return call_.source; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override;
  float getDuration() const override;
  uint64_t getSequencenumber() const override { return call_.sequence; }
  // These two are virtual in newer versions of c10d only.
  std::chrono::milliseconds getTimeout() const { return call_.timeout; }
  uint64_t getCompletionKey() const { return key_; }

  const Call& call() const { return call_; }
  /// Runs the operation on the lane's communicator. Throws nothing.
  void run(Lane& lane);
  /// Tells those who wait, then those who asked for a future: their callbacks run here.
  void settle();
  /// The same for an operation that cannot run any more.
  void fail(std::exception_ptr error);
  bool done();

  const std::shared_ptr<Lane>& lane() const { return lane_; }
  /// For a call that is recorded (batch.h): whoever waits for it has the recording issued.
  void set_recording(std::weak_ptr<Recording> recording) { recording_ = std::move(recording); }
  /// Gives the operation to a recording, which joins those of several calls.
  Operation take_operation() { return std::move(*operation_); }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> make_future(bool of_result);
  void complete(c10::ivalue::Future& future, bool of_result);

  const Call call_;
  const uint64_t key_;
  const int pid_;
  std::optional<Operation> operation_;  // until it has run
  const std::shared_ptr<Lane> lane_;
  const at::ThreadLocalState state_;
  std::exception_ptr error_;  // of run(), until settle()
  std::chrono::steady_clock::time_point begin_;
  std::chrono::steady_clock::time_point end_;
  std::weak_ptr<Recording> recording_;
  // Guarded by mutex_ of the base.
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  c10::intrusive_ptr<c10::ivalue::Future> result_future_;
  bool told_ = false;  // settle() has taken the futures
};

}  // namespace tutti_torch
