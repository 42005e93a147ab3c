#include "src/operation/placed_operation.h"

#include <algorithm>

#include "src/operation/room.h"

namespace tutti::operation {

Runner runner_of(const Operation& operation, const CallStream& stream) {
  if (stream.is_of_device()) {
    return operation.unsupported_by_streams().ok() ? Runner::kStream : Runner::kStreamThread;
  }
  const bool is_host = stream.kind == StreamKind::kHost;
  const bool is_replayed = operation.communicator().streams().is_replayed();
  return is_host || is_replayed ? Runner::kStreamThread : Runner::kCallersThread;
}

PlacedOperation::PlacedOperation(const Operation& operation, const CallStream& stream,
                                 const std::shared_ptr<Completion>& handle)
    : communicator(&operation.communicator()),
      runner(runner_of(operation, stream)),
      by_streams(runner == Runner::kStream || (stream.is_of_device() && operation.crosses())),
      phase(operation.phase(by_streams)),
      first_(stream) {
  task.operation = HeldOperation(operation);
  task.priority = operation.options().priority;
  task.stream = stream.told;
  if (handle == nullptr) return;
  task.handles.push_back(handle);
  handle->add();  // from here on it must be told
}

Status PlacedOperation::check() {
  if (Status status = task.operation->check(); !status.ok()) return status;
  bool any = false;
  for (CallStream& stream : own_streams()) {
    if (!stream.is_of_device()) continue;
    any = true;
    comm::DeviceStreams& known = communicator->streams();
    const auto place = known.device().place_of_stream(stream.handle, known.place());
    if (!place.ok()) return place.status();
    stream.place = place.value();
  }
  return any ? communicator->streams().order().status() : Status();
}

Status PlacedOperation::prepare() {
  if (Status status = check(); !status.ok()) return status;
  const bool any = std::ranges::any_of(streams(), &CallStream::is_of_device);
  if (!any || runner == Runner::kStream) return {};
  return task.operation->check_host_way();
}

std::span<CallStream> PlacedOperation::own_streams() {
  return more_.empty() ? std::span(&first_, 1) : std::span(more_);
}

void PlacedOperation::reserve_streams(size_t more) { make_room(more_, streams().size() + more); }

void PlacedOperation::add_streams(std::span<const CallStream> later) {
  if (more_.empty()) more_.push_back(first_);
  more_.insert(more_.end(), later.begin(), later.end());
}

std::vector<exec::StreamPlace> PlacedOperation::places() const {
  std::vector<exec::StreamPlace> all;
  std::vector<void*> handles;
  for (const CallStream& stream : streams()) {
    const bool known = std::find(handles.begin(), handles.end(), stream.handle) != handles.end();
    if (!stream.is_of_device() || known) continue;
    handles.push_back(stream.handle);
    all.push_back(stream.place);
  }
  return all;
}

bool PlacedOperation::is_captured() const {
  return std::ranges::any_of(streams(), [](const CallStream& stream) {
    return stream.is_of_device() && stream.place.capture != 0;
  });
}

}  // namespace tutti::operation
