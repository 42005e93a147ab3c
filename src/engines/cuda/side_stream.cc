#include "src/engines/cuda/side_stream.h"

#include <utility>

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

using drivers::cuda::Capture;
using drivers::cuda::CudaEvent;
using drivers::cuda::CudaStream;
using drivers::cuda::CUstream;

SideStream::SideStream(CudaStream stream, Events events, int priority, uint64_t capture)
    : stream_(std::move(stream)),
      events_(std::move(events)),
      priority_(priority),
      capture_(capture) {}

Result<std::unique_ptr<SideStream>> SideStream::create(const drivers::cuda::Cuda& cuda,
                                                       int priority, uint64_t capture) {
  Result<CudaStream> stream = CudaStream::create(cuda, priority);
  if (!stream.ok()) return stream.status();
  const drivers::cuda::UncapturedScope uncaptured(cuda);
  Result<CudaEvent> first = CudaEvent::create(cuda);
  if (!first.ok()) return first.status();
  Result<CudaEvent> second = CudaEvent::create(cuda);
  if (!second.ok()) return second.status();
  return std::unique_ptr<SideStream>(
      new SideStream(std::move(stream).value(),
                     {std::move(first).value(), std::move(second).value()}, priority, capture));
}

Result<const SideStream*> SideStreams::find(CUstream stream, uint64_t capture) {
  const Result<int> priority = drivers::cuda::priority_of(cuda_, stream);
  if (!priority.ok()) return priority.status();
  for (const std::unique_ptr<SideStream>& one : streams_) {
    const bool is_for_captures = one->capture() != 0;
    if (one->priority() != priority.value() || is_for_captures != (capture != 0)) continue;
    if (one->capture() != capture) {
      const Result<Capture> busy = drivers::cuda::find_capture(cuda_, one->get());
      if (!busy.ok() || busy.value().id != 0) continue;
      one->enter(capture);
    }
    return one.get();
  }
  Result<std::unique_ptr<SideStream>> made = SideStream::create(cuda_, priority.value(), capture);
  if (!made.ok()) return made.status();
  streams_.push_back(std::move(made).value());
  return streams_.back().get();
}

}  // namespace tutti::engines::cuda
