#include "work.h"

#include <ATen/core/ivalue.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "batch.h"
#include "errors.h"
#include "interpreter.h"
#include "lane.h"

namespace tutti_torch {
namespace {

uint64_t next_key() {
  // tidy: allow mutable (completion keys of a process are never used again)
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

c10d::WorkResult kind_of(const std::exception_ptr& error) {
  if (error == nullptr) return c10d::WorkResult::SUCCESS;
  try {
    std::rethrow_exception(error);
  } catch (const CallError& failed) {
    return failed.result == tuttiTimeout ? c10d::WorkResult::TIMEOUT : c10d::WorkResult::COMM_ERROR;
  } catch (...) {
    return c10d::WorkResult::UNKNOWN;
  }
}

}  // namespace

WorkTutti::WorkTutti(Call call, Operation operation, std::shared_ptr<Lane> lane)
    : c10d::Work(call.rank, call.type, call.title, call.inputs),
      call_(std::move(call)),
      key_(next_key()),
      pid_(getpid()),
      operation_(std::move(operation)),
      lane_(std::move(lane)) {}

void WorkTutti::run(Lane& lane) {
  const at::ThreadLocalStateGuard guard(state_);
  begin_ = std::chrono::steady_clock::now();
  try {
    const std::string what = std::string(call_.title) + " in " + lane.communicator().place().name;
    operation_->run(lane.communicator().get(call_.timeout), call_.timeout, what);
  } catch (const CallError& error) {
    lane.communicator().note(error.result);
    error_ = std::current_exception();
  } catch (...) {
    error_ = std::current_exception();
  }
  operation_.reset();
  end_ = std::chrono::steady_clock::now();
  lane.observe(*this, error_);
}

void WorkTutti::fail(std::exception_ptr error) {
  operation_.reset();
  error_ = std::move(error);
  settle();
}

void WorkTutti::settle() {
  finish(error_);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  c10::intrusive_ptr<c10::ivalue::Future> result_future;
  {
    const std::lock_guard lock(mutex_);
    told_ = true;
    future = future_;
    result_future = result_future_;
  }
  if (future == nullptr && result_future == nullptr) return;
  if (is_shut_out_of_interpreter()) return;  // their callbacks are Python's
  const at::ThreadLocalStateGuard guard(state_);
  if (future != nullptr) complete(*future, false);
  if (result_future != nullptr) complete(*result_future, true);
}

void WorkTutti::complete(c10::ivalue::Future& future, bool of_result) {
  if (of_result) {
    future.markCompleted(c10::IValue(static_cast<int64_t>(kind_of(exception_))));
  } else if (exception_ != nullptr) {
    future.setError(exception_);
  } else {
    future.markCompleted(c10::IValue(call_.outputs));
  }
}

c10::intrusive_ptr<c10::ivalue::Future> WorkTutti::make_future(bool of_result) {
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    const std::lock_guard lock(mutex_);
    auto& kept = of_result ? result_future_ : future_;
    if (kept != nullptr) return kept;
    const c10::TypePtr type =
        of_result ? c10::TypePtr(c10::IntType::get()) : c10::TypePtr(c10::ListType::ofTensors());
    kept = c10::make_intrusive<c10::ivalue::Future>(type);
    future = kept;
    if (!told_) return future;
  }
  complete(*future, of_result);
  return future;
}

c10::intrusive_ptr<c10::ivalue::Future> WorkTutti::getFuture() { return make_future(false); }

c10::intrusive_ptr<c10::ivalue::Future> WorkTutti::getFutureResult() { return make_future(true); }

bool WorkTutti::done() {
  const std::lock_guard lock(mutex_);
  return completed_;
}

bool WorkTutti::wait(std::chrono::milliseconds timeout) {
  if (getpid() != pid_) {
    throw CallError(tuttiInvalidUsage, std::string("tutti: ") + call_.title +
                                           " was called in the parent of this forked process, and "
                                           "only the parent can wait for it");
  }
  if (const auto recording = recording_.lock()) recording->issue();
  lane_->help(*this);
  const bool ended = [&] {
    std::unique_lock lock(mutex_);
    if (timeout == kNoTimeout) {
      cv_.wait(lock, [this] { return completed_; });
      return true;
    }
    return cv_.wait_for(lock, timeout, [this] { return completed_; });
  }();
  lane_->go_back();
  if (!ended) {
    throw CallError(tuttiTimeout, std::string("tutti: the wait for ") + call_.title +
                                      " timed out after " + std::to_string(timeout.count()) +
                                      " ms; the call goes on, wait again or abort the group");
  }
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

void WorkTutti::abort() { lane_->abort(); }

float WorkTutti::getDuration() const {
  return std::chrono::duration<float, std::milli>(end_ - begin_).count();
}

}  // namespace tutti_torch
