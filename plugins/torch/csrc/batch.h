// Calls that are recorded between startCoalescing() and endCoalescing() and issued together.
//
// A program may fail between the two. So a recording is issued at the latest when somebody waits
// for one of its calls, in the order of the calls, and nothing that was called is lost.
//
// Threads: a recording belongs to the thread that began it, but any may wait for its calls.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "work.h"

namespace tutti_torch {

class Recording {
 public:
  using WorkPtr = c10::intrusive_ptr<WorkTutti>;

  Recording() : thread_(std::this_thread::get_id()) {}
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }

  void add(WorkPtr work);
  /// Hands all calls to their lanes; once.
  void issue();
  std::vector<WorkPtr> all();
  /// Everything recorded, which is not issued any more.
  std::vector<WorkPtr> take();

 private:
  const std::thread::id thread_;
  std::mutex mutex_;
  std::vector<WorkPtr> works_;
};

/// Completes when all of several calls have; its error is the first of theirs.
class BatchWork : public c10d::Work {
 public:
  BatchWork(int rank, std::vector<c10::intrusive_ptr<WorkTutti>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<WorkTutti>> works_;
};

}  // namespace tutti_torch
