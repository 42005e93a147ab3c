// Requests: tested, waited for, told of, timed.
#include "src/api/request.h"

#include <utility>

#include "src/api/caught.h"
#include "src/api/process.h"
#include "src/base/clock.h"

namespace tutti::api {
namespace {

// tidy: allow mutable (which communicators are driven here is the thread's own affair)
constinit thread_local DeferredCallbacks* deferring = nullptr;

Status taken() {
  return Status::invalid_usage("another thread waits for the request, and takes its result");
}

Status check_request(tuttiRequest_t request) {
  if (request == nullptr) return Status::invalid_argument("the request is null");
  const uint32_t state = request->state.load(std::memory_order_acquire);
  if (state == tuttiRequest::kAlive) return {};
  if (state == tuttiRequest::kInherited) return inherited("the request");
  if (state == tuttiRequest::kWaited) return taken();
  return Status::invalid_usage("the request has been waited for, or is none");
}

Status test(tuttiRequest_t request, int* done) {
  if (done == nullptr) return Status::invalid_argument("tuttiRequestTest: done is null");
  *done = 0;
  if (Status status = check_request(request); !status.ok()) return status;
  Status outcome;
  *done = request->completion->is_done(outcome) ? 1 : 0;
  return outcome;
}

Status check_can_wait_for(tuttiRequest_t request, const char* call) {
  if (waits_for_group_end(request->completion)) {
    return Status::invalid_usage(std::string(call) +
                                 ": the operation waits for this thread's tuttiGroupEnd");
  }
  Status outcome;
  return request->completion->is_done(outcome) ? Status() : check_can_wait(call);
}

Status wait(tuttiRequest_t request, uint64_t timeout_ns, const char* call) {
  if (Status status = check_request(request); !status.ok()) return status;
  Result<Process*> process = Process::current();
  if (!process.ok()) return process.status();
  if (timeout_ns > 0) {
    if (Status status = check_can_wait_for(request, call); !status.ok()) return status;
  }
  uint32_t alive = tuttiRequest::kAlive;
  if (!request->state.compare_exchange_strong(alive, tuttiRequest::kWaited)) {
    return taken();
  }
  Status outcome;  // a test that has begun finds it, too
  if (request->completion->is_done_by(deadline_after(timeout_ns), outcome)) {
    process.value()->free_request(request);
    return outcome;
  }
  request->state.store(tuttiRequest::kAlive, std::memory_order_release);
  return Status(Code::kInProgress, std::string(call) + ": the call has not completed in time");
}

Status notify(tuttiRequest_t request, tuttiRequestCallback_t function, void* context) {
  if (function == nullptr) {
    return Status::invalid_argument("tuttiRequestNotify: the callback is null");
  }
  if (Status status = check_request(request); !status.ok()) return status;
  const Callback callback{function, context, request};
  const bool taken = request->completion->call_back(
      [callback](const Status& outcome) { call_or_defer(callback, outcome); });
  if (taken) return {};
  return Status::invalid_usage("tuttiRequestNotify: the request has a callback already");
}

Status get_times(tuttiRequest_t request, uint64_t* began_ns, uint64_t* ended_ns) {
  if (began_ns == nullptr || ended_ns == nullptr) {
    return Status::invalid_argument("tuttiRequestGetTimes: began_ns or ended_ns is null");
  }
  if (Status status = check_request(request); !status.ok()) return status;
  const operation::Completion::Times times = request->completion->times();
  *began_ns = times.began_ns;
  *ended_ns = times.ended_ns;
  return {};
}

}  // namespace

void Callback::call(const Status& outcome) const {
  const InCallback in;
  function(request, report(nullptr, outcome), context);
}

DeferredCallbacks::DeferredCallbacks(size_t most) : outer_(deferring) {
  waiting_.reserve(most);
  deferring = this;
}

DeferredCallbacks::~DeferredCallbacks() {
  deferring = outer_;
  for (const Waiting& one : waiting_) call_or_defer(one.callback, one.outcome);
}

void call_or_defer(const Callback& callback, const Status& outcome) {
  if (deferring == nullptr) return callback.call(outcome);
  deferring->waiting_.push_back({callback, outcome});
}

}  // namespace tutti::api

using tutti::api::report;

extern "C" {

tuttiResult_t tuttiRequestTest(tuttiRequest_t request, int* done) {
  return tutti::api::caught(nullptr,
                            [&] { return report(nullptr, tutti::api::test(request, done)); });
}

tuttiResult_t tuttiRequestWait(tuttiRequest_t request) {
  return tutti::api::caught(nullptr, [&] {
    return report(nullptr, tutti::api::wait(request, tutti::kNoDeadline, "tuttiRequestWait"));
  });
}

tuttiResult_t tuttiRequestWaitFor(tuttiRequest_t request, uint64_t timeout_ns) {
  return tutti::api::caught(nullptr, [&] {
    return report(nullptr, tutti::api::wait(request, timeout_ns, "tuttiRequestWaitFor"));
  });
}

tuttiResult_t tuttiRequestNotify(tuttiRequest_t request, tuttiRequestCallback_t callback,
                                 void* context) {
  return tutti::api::caught(
      nullptr, [&] { return report(nullptr, tutti::api::notify(request, callback, context)); });
}

tuttiResult_t tuttiRequestGetTimes(tuttiRequest_t request, uint64_t* began_ns, uint64_t* ended_ns) {
  return tutti::api::caught(
      nullptr, [&] { return report(nullptr, tutti::api::get_times(request, began_ns, ended_ns)); });
}

}  // extern "C"
