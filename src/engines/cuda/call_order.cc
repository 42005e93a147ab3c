#include "src/engines/cuda/call_order.h"

#include <algorithm>
#include <utility>

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

using drivers::cuda::ContextScope;
using drivers::cuda::CUcontext;
using drivers::cuda::CudaEvent;
using drivers::cuda::CUstream;

namespace {

CUstream stream_of(const exec::StreamPlace& where) { return static_cast<CUstream>(where.stream); }
CUcontext context_of(const exec::StreamPlace& where) {
  return static_cast<CUcontext>(where.context);
}

}  // namespace

// Made although streams are captured.
Result<CudaCallOrder::EventInContext> CudaCallOrder::EventInContext::create(
    const drivers::cuda::Cuda& cuda, void* context) {
  const ContextScope scope(cuda, static_cast<CUcontext>(context));
  if (!scope.status().ok()) return scope.status();
  const drivers::cuda::UncapturedScope uncaptured(cuda);
  Result<CudaEvent> event = CudaEvent::create(cuda);
  if (!event.ok()) return event.status();
  EventInContext made;
  made.cuda = &cuda;
  made.context = context;
  made.event.emplace(std::move(event).value());
  return made;
}

CudaCallOrder::EventInContext::~EventInContext() {
  if (!event) return;
  const ContextScope scope(*cuda, static_cast<CUcontext>(context));
  event.reset();
}

Result<const CudaCallOrder::EventInContext*> CudaCallOrder::event_of(
    const exec::StreamPlace& where) {
  for (const EventInContext& known : events_) {
    if (known.context == where.context) return &known;
  }
  Result<EventInContext> made = EventInContext::create(cuda_, where.context);
  if (!made.ok()) return made.status();
  return &events_.emplace_back(std::move(made).value());
}

Result<std::shared_ptr<CudaCallOrder::Captured>> CudaCallOrder::captured_of(
    const exec::StreamPlace& where) {
  std::erase_if(captures_, [](const auto& one) { return one.expired(); });
  for (const auto& known : captures_) {
    std::shared_ptr<Captured> one = known.lock();
    if (one != nullptr && one->id == where.capture) return one;
  }
  Result<EventInContext> last = EventInContext::create(cuda_, where.context);
  if (!last.ok()) return last.status();
  std::shared_ptr<Captured> made(new Captured{where.capture, std::move(last).value()});
  auto* const graph = static_cast<drivers::cuda::CUgraph>(where.graph);
  // The order, too: the graph names its events.
  auto kept = std::make_shared<std::pair<std::shared_ptr<Captured>, std::shared_ptr<const void>>>(
      made, shared_from_this());
  if (Status status = keep_with(cuda_, graph, std::move(kept)); !status.ok()) return status;
  captures_.push_back(made);
  return made;
}

Status CudaCallOrder::begin_captured(const exec::StreamPlace& where) {
  const Result<std::shared_ptr<Captured>> captured = captured_of(where);
  if (!captured.ok()) return captured.status();
  if (captured.value()->has_calls) {
    return captured.value()->last.event->make_wait(stream_of(where));
  }
  // Its own context's, too, which later calls record.
  if (const Result<const EventInContext*> own = event_of(where); !own.ok()) return own.status();
  for (const EventInContext& one : events_) {
    if (Status s = one.event->make_wait_outside(stream_of(where)); !s.ok()) return s;
  }
  return {};
}

Status CudaCallOrder::begin_in(const exec::StreamPlace& where) {
  const ContextScope scope(cuda_, context_of(where));
  if (!scope.status().ok()) return scope.status();
  if (where.capture != 0) return begin_captured(where);
  for (const EventInContext& one : events_) {
    if (Status s = one.event->make_wait(stream_of(where)); !s.ok()) return s;
  }
  return {};
}

Status CudaCallOrder::begin(std::span<const exec::StreamPlace> streams) {
  has_captured_ = has_captured_ || streams[0].capture != 0;
  begun_in_ = has_captured_ ? 0 : drivers::cuda::identity_of(cuda_, stream_of(streams[0]));
  if (streams.size() == 1 && begun_in_ != 0 && begun_in_ == ended_in_) return {};
  for (const exec::StreamPlace& where : streams) {
    if (Status status = begin_in(where); !status.ok()) return status;
  }
  return {};
}

// The first stream comes behind the others. These are one thread's at one time, so equal handles
// are one stream.
Status CudaCallOrder::join(std::span<const exec::StreamPlace> streams) const {
  for (const exec::StreamPlace& other : streams.subspan(1)) {
    if (other.stream == streams[0].stream) continue;
    const Result<EventInContext> there = EventInContext::create(cuda_, other.context);
    if (!there.ok()) return there.status();
    const ContextScope scope(cuda_, context_of(other));
    if (Status s = there.value().event->record(stream_of(other)); !s.ok()) return s;
    const ContextScope first(cuda_, context_of(streams[0]));
    if (Status s = there.value().event->make_wait(stream_of(streams[0])); !s.ok()) return s;
  }
  return {};
}

Result<bool> CudaCallOrder::is_over() const {
  for (const EventInContext& one : events_) {
    const ContextScope scope(cuda_, static_cast<CUcontext>(one.context));
    if (!scope.status().ok()) return scope.status();
    const Result<bool> done = one.event->is_done();
    if (!done.ok() || !done.value()) return done;
  }
  return true;
}

Status CudaCallOrder::end(std::span<const exec::StreamPlace> streams) {
  if (Status status = join(streams); !status.ok()) return status;
  const exec::StreamPlace& where = streams[0];
  const ContextScope scope(cuda_, context_of(where));
  if (!scope.status().ok()) return scope.status();
  const Result<const EventInContext*> own = event_of(where);
  if (!own.ok()) return own.status();
  const CudaEvent& last = *own.value()->event;
  if (where.capture == 0) {
    ended_in_ = 0;
    if (Status s = last.record(stream_of(where)); !s.ok()) return s;
    ended_in_ = begun_in_;
    return {};
  }
  const Result<std::shared_ptr<Captured>> captured = captured_of(where);
  if (!captured.ok()) return captured.status();
  captured.value()->has_calls = true;
  if (Status s = last.record_outside(stream_of(where)); !s.ok()) return s;
  return captured.value()->last.event->record(stream_of(where));
}

}  // namespace tutti::engines::cuda
