#include "src/operation/staging.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tutti::operation {
namespace {

/// The input or output of a staging while it is put together: buffers side by side.
class StagedSide {
 public:
  /// Room for a buffer of so many bytes; returns where it begins.
  uint64_t reserve(uint64_t bytes) {
    constexpr uint64_t kLine = 128;
    const uint64_t begin = pieces_.bytes;
    pieces_.bytes += (bytes + kLine - 1) / kLine * kLine;
    return begin;
  }
  void add(exec::DeviceCopies direct) { pieces_.direct = std::move(direct); }
  void add(std::byte* device, uint64_t offset, uint64_t bytes) {
    if (bytes == 0) return;
    if (!pieces_.pieces.empty()) {
      exec::DevicePiece& last = pieces_.pieces.back();
      if (last.device + last.bytes == device && last.offset + last.bytes == offset) {
        last.bytes += bytes;
        return;
      }
    }
    pieces_.pieces.push_back({device, offset, bytes});
  }
  const exec::DevicePieces& pieces() const { return pieces_; }

 private:
  exec::DevicePieces pieces_;
};

/// A buffer that is to lie in the staging's host memory.
struct MovedBuffer {
  size_t number = 0;
  bool is_input = false;
  uint64_t offset = 0;
};

/// The buffers that are staged on one stream.
struct Load {
  StagedSide input, output;
  std::vector<MovedBuffer> moved;
};

// The host's copy has the shares where the buffer has them; what lies between stays untouched.
Status load_buffer(exec::Device& device, const CallBuffer& buffer, size_t number, Load& load) {
  const uint64_t end = buffer.end();
  if (end == 0 || buffer.memory == nullptr) return {};
  const Result<exec::MemoryPlace> place = device.place_of(buffer.memory);
  if (!place.ok()) return place.status();
  if (place.value() != exec::MemoryPlace::kDevice) return {};
  const bool is_input = buffer.use != BufferUse::kOutput;
  StagedSide& side = is_input ? load.input : load.output;
  const uint64_t begin = side.reserve(end);
  auto* const memory = static_cast<std::byte*>(const_cast<void*>(buffer.memory));
  for (const Share& share : buffer.shares) {
    side.add(memory + share.offset, begin + share.offset, share.bytes);
  }
  load.moved.push_back({number, is_input, begin});
  return {};
}

Result<Load> load_of(const Operation& operation, std::span<const CallStream> streams,
                     const CallStream& on) {
  Load load;
  exec::Device& device = operation.communicator().streams().device();
  const std::vector<CallBuffer> buffers = operation.buffers();
  for (size_t i = 0; i < buffers.size(); ++i) {
    const CallStream& own = streams[buffers[i].stream];
    if (!own.is_of_device() || own.handle != on.handle) continue;
    if (Status s = load_buffer(device, buffers[i], i, load); !s.ok()) return s;
  }
  return load;
}

/// Of devices, without repetition.
std::vector<exec::StreamPlace> places_of(std::span<const CallStream> streams) {
  std::vector<exec::StreamPlace> places;
  std::vector<void*> handles;
  for (const CallStream& stream : streams) {
    const bool known = std::find(handles.begin(), handles.end(), stream.handle) != handles.end();
    if (!stream.is_of_device() || known) continue;
    handles.push_back(stream.handle);
    places.push_back(stream.place);
  }
  return places;
}

/// For each device's stream, `make` makes the staging of what the operation loads there; or `take`
/// takes its bounce buffer, which is one of all streams.
template <class Make, class Take>
Status stage_each(Operation& operation, std::span<const CallStream> streams,
                  const std::function<void()>& arrived, Make make, Take take) {
  const std::vector<exec::StreamPlace> places = places_of(streams);
  if (!places.empty() && operation.crosses()) {
    const auto buffer = operation.cross(places, arrived);
    if (buffer.ok()) take(buffer.value());
    return buffer.status();
  }
  std::vector<void*> handles;
  for (const CallStream& stream : streams) {
    const bool known = std::find(handles.begin(), handles.end(), stream.handle) != handles.end();
    if (!stream.is_of_device() || known) continue;
    handles.push_back(stream.handle);
    Result<Load> load = load_of(operation, streams, stream);
    if (!load.ok()) return load.status();
    if (handles.size() == 1) {
      Result<exec::DeviceCopies> direct = operation.stream_copies(arrived != nullptr);
      if (!direct.ok()) return direct.status();
      load.value().input.add(std::move(direct).value());
    }
    const Result<std::shared_ptr<exec::HostStaging>> staging = make(stream.place, load.value());
    if (!staging.ok()) return staging.status();
    for (const MovedBuffer& one : load.value().moved) {
      std::byte* const memory = one.is_input ? staging.value()->input() : staging.value()->output();
      operation.move_buffer(one.number, memory + one.offset);
    }
  }
  return {};
}

}  // namespace

Result<Stagings> stage(Task& task, std::span<const CallStream> streams) {
  Stagings made;
  exec::Device& device = task.communicator().streams().device();
  const auto take = [&](const std::shared_ptr<exec::HostStaging>& staging) {
    made.push_back(staging);
    task.fences.push_back(staging->fence());
  };
  const auto make = [&](const exec::StreamPlace& where, const Load& load) {
    auto staging = device.cross(where, load.input.pieces(), load.output.pieces());
    if (staging.ok()) take(staging.value());
    return staging;
  };
  if (Status s = stage_each(*task.operation, streams, {}, make, take); !s.ok()) return s;
  return made;
}

Status stage_captured(CapturedTask& captured, std::span<const CallStream> streams) {
  exec::Device& device = captured.task().communicator().streams().device();
  const std::function<void()> arrived = [&captured] { captured.arrived(); };
  const auto take = [&](const std::shared_ptr<exec::HostStaging>& staging) {
    captured.add(staging);
  };
  const auto make = [&](const exec::StreamPlace& where, const Load& load) {
    auto staging = device.cross_captured(where, load.input.pieces(), load.output.pieces(), arrived);
    if (staging.ok()) take(staging.value());
    return staging;
  };
  return stage_each(*captured.task().operation, streams, arrived, make, take);
}

}  // namespace tutti::operation
