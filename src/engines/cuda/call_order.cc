#include "src/engines/cuda/call_order.h"

#include <algorithm>
#include <utility>

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

using drivers::cuda::CudaEvent;
using drivers::cuda::CUstream;

namespace {

CUstream stream_of(const exec::StreamPlace& where) { return static_cast<CUstream>(where.stream); }

/// Some event, made although streams are captured.
Result<CudaEvent> make_event(const drivers::cuda::Cuda& cuda) {
  const drivers::cuda::UncapturedScope uncaptured(cuda);
  return CudaEvent::create(cuda);
}

}  // namespace

CudaCallOrder::Captured::~Captured() {
  if (!last) return;
  const drivers::cuda::ContextScope scope(*cuda, context);
  last.reset();
}

Result<std::shared_ptr<exec::CallOrder>> CudaCallOrder::create(const drivers::cuda::Cuda& cuda,
                                                               drivers::cuda::CUcontext context) {
  Result<CudaEvent> last = make_event(cuda);
  if (!last.ok()) return last.status();
  std::shared_ptr<CudaCallOrder> made(new CudaCallOrder(cuda, context));
  made->last_.emplace(std::move(last).value());
  return std::shared_ptr<exec::CallOrder>(std::move(made));
}

CudaCallOrder::~CudaCallOrder() {
  const drivers::cuda::ContextScope scope(cuda_, context_);
  last_.reset();
}

Result<std::shared_ptr<CudaCallOrder::Captured>> CudaCallOrder::captured_of(
    const exec::StreamPlace& where) {
  std::erase_if(captures_, [](const auto& one) { return one.expired(); });
  for (const auto& known : captures_) {
    std::shared_ptr<Captured> one = known.lock();
    if (one != nullptr && one->id == where.capture) return one;
  }
  Result<CudaEvent> last = make_event(cuda_);
  if (!last.ok()) return last.status();
  auto made = std::make_shared<Captured>();
  made->id = where.capture;
  made->cuda = &cuda_;
  made->context = context_;
  made->last.emplace(std::move(last).value());
  auto* const graph = static_cast<drivers::cuda::CUgraph>(where.graph);
  // The order, too: the graph names its event.
  auto kept = std::make_shared<std::pair<std::shared_ptr<Captured>, std::shared_ptr<const void>>>(
      made, shared_from_this());
  if (Status status = keep_with(cuda_, graph, std::move(kept)); !status.ok()) return status;
  captures_.push_back(made);
  return made;
}

Status CudaCallOrder::begin_captured(const exec::StreamPlace& where) {
  const Result<std::shared_ptr<Captured>> captured = captured_of(where);
  if (!captured.ok()) return captured.status();
  if (captured.value()->has_calls) return captured.value()->last->make_wait(stream_of(where));
  return last_->make_wait_outside(stream_of(where));
}

Status CudaCallOrder::begin(std::span<const exec::StreamPlace> streams) {
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (!scope.status().ok()) return scope.status();
  for (const exec::StreamPlace& where : streams) {
    Status status = where.capture != 0 ? begin_captured(where) : last_->make_wait(stream_of(where));
    if (!status.ok()) return status;
  }
  return {};
}

// The first stream comes behind the others.
Status CudaCallOrder::join(std::span<const exec::StreamPlace> streams) const {
  for (const exec::StreamPlace& other : streams.subspan(1)) {
    if (other.stream == streams[0].stream) continue;
    const Result<CudaEvent> there = make_event(cuda_);
    if (!there.ok()) return there.status();
    if (Status s = there.value().record(stream_of(other)); !s.ok()) return s;
    if (Status s = there.value().make_wait(stream_of(streams[0])); !s.ok()) return s;
  }
  return {};
}

Status CudaCallOrder::end(std::span<const exec::StreamPlace> streams) {
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (!scope.status().ok()) return scope.status();
  if (Status status = join(streams); !status.ok()) return status;
  const exec::StreamPlace& where = streams[0];
  if (where.capture == 0) return last_->record(stream_of(where));
  const Result<std::shared_ptr<Captured>> captured = captured_of(where);
  if (!captured.ok()) return captured.status();
  captured.value()->has_calls = true;
  if (Status s = last_->record_outside(stream_of(where)); !s.ok()) return s;
  return captured.value()->last->record(stream_of(where));
}

}  // namespace tutti::engines::cuda
