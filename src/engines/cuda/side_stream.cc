#include "src/engines/cuda/side_stream.h"

#include <algorithm>
#include <utility>

#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"

namespace tutti::engines::cuda {

using drivers::cuda::Capture;
using drivers::cuda::CudaEvent;
using drivers::cuda::CudaStream;
using drivers::cuda::CUstream;

namespace {

constexpr size_t kMostBranches = 7;  // beside the stream that they fork from

}  // namespace

SideStream::SideStream(const drivers::cuda::Cuda& cuda, CudaStream stream, Events events,
                       int priority, uint64_t capture)
    : cuda_(cuda),
      stream_(std::move(stream)),
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
  Result<CudaEvent> level = CudaEvent::create(cuda);
  if (!level.ok()) return level.status();
  return std::unique_ptr<SideStream>(new SideStream(
      cuda, std::move(stream).value(),
      {std::move(first).value(), std::move(second).value(), std::move(level).value()}, priority,
      capture));
}

Status SideStream::replace_legacy() {
  if (first_) return {};
  Result<CudaStream> made = CudaStream::create(cuda_, priority_);
  if (!made.ok()) return made.status();
  first_.emplace(std::move(made).value());
  return {};
}

Result<bool> SideStream::is_captured() const {
  std::vector<CUstream> all = {stream_.get()};
  for (const CudaStream& branch : branches_) all.push_back(branch.get());
  for (CUstream one : all) {
    const Result<Capture> found = drivers::cuda::find_capture(cuda_, one);
    if (!found.ok()) return found.status();
    if (found.value().id != 0) return true;
  }
  return false;
}

// An event of a capture is no more than the point in the graph where it was recorded last, so two
// of them are enough for all branches.
Status SideStream::branch_out(size_t branches) {
  const drivers::cuda::UncapturedScope uncaptured(cuda_);
  for (std::optional<CudaEvent>* event : {&forked_, &joined_}) {
    if (*event) continue;
    Result<CudaEvent> made = CudaEvent::create(cuda_);
    if (!made.ok()) return made.status();
    event->emplace(std::move(made).value());
  }
  while (branches_.size() < branches) {
    Result<CudaStream> made = CudaStream::create(cuda_, priority_);
    if (!made.ok()) return made.status();
    branches_.push_back(std::move(made).value());
  }
  return {};
}

Status SideStream::put_beside(CUstream stream, const drivers::cuda::CopyBatch& copies) {
  const size_t branches = std::min(copies.size() - 1, kMostBranches);
  if (Status s = branch_out(branches); !s.ok()) return s;
  if (Status s = forked_->record(stream); !s.ok()) return s;
  for (size_t i = 0; i < copies.size(); ++i) {
    const CUstream branch = i == 0 ? stream : branches_[(i - 1) % branches].get();
    if (i > 0 && i <= branches) {
      if (Status s = forked_->make_wait(branch); !s.ok()) return s;
    }
    if (Status s = copies.submit_one(cuda_, branch, i); !s.ok()) return s;
  }
  for (size_t i = 0; i < branches; ++i) {
    if (Status s = joined_->record(branches_[i].get()); !s.ok()) return s;
    if (Status s = joined_->make_wait(stream); !s.ok()) return s;
  }
  return {};
}

Result<SideStream*> SideStreams::find(CUstream stream, uint64_t capture, size_t lanes) {
  const bool is_legacy = capture == 0 && drivers::cuda::is_legacy_stream(stream);
  if (lanes < 2 && capture == 0 && !is_legacy) return nullptr;
  const Result<int> priority = drivers::cuda::priority_of(cuda_, stream);
  if (!priority.ok()) return priority.status();
  Result<SideStream*> found = find_or_make(priority.value(), capture);
  if (!found.ok() || !is_legacy) return found;
  if (Status status = found.value()->replace_legacy(); !status.ok()) return status;
  return found;
}

Result<SideStream*> SideStreams::find_or_make(int priority, uint64_t capture) {
  for (const std::unique_ptr<SideStream>& one : streams_) {
    const bool is_for_captures = one->capture() != 0;
    if (one->priority() != priority || is_for_captures != (capture != 0)) continue;
    if (one->capture() != capture) {
      const Result<bool> busy = one->is_captured();
      if (!busy.ok() || busy.value()) continue;
      one->enter(capture);
    }
    return one.get();
  }
  Result<std::unique_ptr<SideStream>> made = SideStream::create(cuda_, priority, capture);
  if (!made.ok()) return made.status();
  streams_.push_back(std::move(made).value());
  return streams_.back().get();
}

}  // namespace tutti::engines::cuda
