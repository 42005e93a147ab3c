#include "src/api/device_call.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/registry/devices.h"
#include "src/schedule/layout.h"

namespace tutti::api {
namespace {

/// The input or output of a crossing while it is put together: buffers side by side.
class CrossingSide {
 public:
  /// Room for a buffer of so many bytes; returns where it begins.
  uint64_t reserve(uint64_t bytes) {
    constexpr uint64_t kLine = 128;
    const uint64_t begin = pieces_.bytes;
    pieces_.bytes += (bytes + kLine - 1) / kLine * kLine;
    return begin;
  }
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

/// A pointer of the work that is to point into the crossing's host memory.
struct Move {
  const void** constant = nullptr;
  std::byte** bytes = nullptr;
  bool is_input = false;
  uint64_t offset = 0;
};

/// The buffers that cross on one stream.
struct Load {
  CrossingSide input, output;
  std::vector<Move> moves;
};

struct Share {
  uint64_t offset = 0;  // in bytes
  uint64_t bytes = 0;
};

std::byte* as_bytes(const void* memory) {
  return static_cast<std::byte*>(const_cast<void*>(memory));
}

// The host's copy has the shares where the buffer has them; what lies between stays untouched.
Status load_buffer(Load& load, const void** pointer, bool is_input, std::span<const Share> shares) {
  uint64_t end = 0;
  for (const Share& share : shares) {
    if (share.bytes > 0) end = std::max(end, share.offset + share.bytes);
  }
  if (end == 0) return {};
  const Result<bool> on_device = is_device_memory(*pointer);
  if (!on_device.ok()) return on_device.status();
  if (!on_device.value()) return {};
  CrossingSide& side = is_input ? load.input : load.output;
  const uint64_t begin = side.reserve(end);
  for (const Share& share : shares) {
    side.add(as_bytes(*pointer) + share.offset, begin + share.offset, share.bytes);
  }
  load.moves.push_back({.constant = pointer, .is_input = is_input, .offset = begin});
  return {};
}

std::vector<Share> shares_of(const comm::CountView& view, const uint64_t* counts,
                             const uint64_t* offsets, uint64_t element) {
  std::vector<Share> shares;
  for (uint32_t i = 0; i < view.ranks; ++i) {
    shares.push_back({comm::offset_of(view, counts, offsets, i) * element, counts[i] * element});
  }
  return shares;
}

/// The shares of both buffers of a request, as this rank has them.
struct Buffers {
  std::vector<Share> send, recv;
};

Buffers buffers_of(const comm::Request& request, const comm::Communicator& communicator) {
  const uint64_t element = types::size_of(request.type);
  const int rank = communicator.rank();
  if (request.counts != nullptr) {
    const comm::CountView& view = *request.counts;
    Buffers buffers;
    if (view.send_counts != nullptr) {
      buffers.send = shares_of(view, view.send_counts, view.send_offsets, element);
    } else {
      buffers.send = {{0, comm::input_elements_of(view, rank) * element}};
    }
    if (view.recv_counts != nullptr) {
      buffers.recv = shares_of(view, view.recv_counts, view.recv_offsets, element);
    } else {
      buffers.recv = {{0, view.send_counts[rank] * element}};
    }
    return buffers;
  }
  schedule::Shape shape;
  shape.collective = request.collective;
  shape.ranks = communicator.ranks();
  shape.root = request.root;
  return {{{0, schedule::input_elements(shape, rank, request.count) * element}},
          {{0, schedule::output_elements(shape, rank, request.count) * element}}};
}

Status load_request(Load& load, comm::Task& task, comm::Request& request) {
  if (request.counts != nullptr) request.counts = &task.counts.view();
  const Buffers buffers = buffers_of(request, *task.communicator);
  if (Status s = load_buffer(load, &request.send, true, buffers.send); !s.ok()) return s;
  const void* const* recv = const_cast<const void* const*>(&request.recv);
  if (Status s = load_buffer(load, const_cast<const void**>(recv), false, buffers.recv); !s.ok()) {
    return s;
  }
  const Share scalar{0, types::size_of(request.type)};
  return load_buffer(load, &task.extras.scalar.memory, true, std::span(&scalar, 1));
}

Status load_transfer(Load& load, exec::Transfer& transfer) {
  if (transfer.bytes == 0) return {};
  const Result<bool> on_device = is_device_memory(transfer.data);
  if (!on_device.ok() || !on_device.value()) return on_device.status();
  CrossingSide& side = transfer.is_send ? load.input : load.output;
  const uint64_t begin = side.reserve(transfer.bytes);
  side.add(transfer.data, begin, transfer.bytes);
  load.moves.push_back({.bytes = &transfer.data, .is_input = transfer.is_send, .offset = begin});
  return {};
}

std::span<exec::Transfer> transfers_of(comm::Task& task) {
  if (auto* single = std::get_if<exec::Transfer>(&task.work)) return {single, 1};
  return std::get<std::vector<exec::Transfer>>(task.work);
}

Status load_work(Load& load, comm::Task& task, std::span<const tuttiStream_t> streams,
                 void* handle) {
  if (task.is_request()) return load_request(load, task, std::get<comm::Request>(task.work));
  if (const auto* access = std::get_if<comm::Access>(&task.work)) {
    return check_host_memory(*access, *task.communicator);
  }
  const std::span<exec::Transfer> transfers = transfers_of(task);
  for (size_t i = 0; i < transfers.size(); ++i) {
    if (!is_of_device(streams[i]) || streams[i].handle != handle) continue;
    if (Status status = load_transfer(load, transfers[i]); !status.ok()) return status;
  }
  return {};
}

void apply(const Load& load, const exec::Crossing& crossing) {
  for (const Move& move : load.moves) {
    std::byte* const memory = (move.is_input ? crossing.input() : crossing.output()) + move.offset;
    if (move.constant != nullptr) *move.constant = memory;
    if (move.bytes != nullptr) *move.bytes = memory;
  }
}

Status refuse_device(const std::string& what, const void* memory) {
  if (memory == nullptr) return {};
  const Result<bool> on_device = is_device_memory(memory);
  if (!on_device.ok() || !on_device.value()) return on_device.status();
  return Status::invalid_argument(
      what +
      " is device memory: pass the CUDA stream that it belongs to (tuttiStreamCuda), or copy "
      "it to the host");
}

// A stream can only copy from and to memory that the driver knows.
Status check_place(const void* memory, const std::string& call, const std::string& buffer) {
  const Result<exec::MemoryPlace> place = device().place_of(memory);
  if (!place.ok()) return place.status();
  if (place.value() != exec::MemoryPlace::kHost) return {};
  return Status::invalid_argument(
      call + " on a CUDA stream: " + buffer +
      " is ordinary host memory, which copy engines cannot reach: pass device memory or pinned "
      "memory, or use a BLOCKING or HOST stream on all ranks");
}

bool has_bytes(const std::vector<Share>& shares) {
  return std::any_of(shares.begin(), shares.end(), [](const Share& one) { return one.bytes > 0; });
}

Status check_places(const comm::Request& request, const comm::Communicator& communicator) {
  const Buffers buffers = buffers_of(request, communicator);
  const std::string call = comm::name_of(request);
  Status status;
  if (has_bytes(buffers.send)) status = check_place(request.send, call, "send");
  if (!status.ok() || !has_bytes(buffers.recv)) return status;
  return check_place(request.recv, call, "recv");
}

// A scalar in ordinary host memory is read now, since no stream can.
Status take_scalar(types::Scalar& scalar, types::DataType type) {
  if (scalar.memory == nullptr) return {};
  const Result<exec::MemoryPlace> place = device().place_of(scalar.memory);
  if (!place.ok()) return place.status();
  if (place.value() != exec::MemoryPlace::kHost) return {};
  std::memcpy(scalar.value.data(), scalar.memory, types::size_of(type));
  scalar.memory = nullptr;
  return {};
}

using Over = std::function<void(const Status&)>;

Status put_request(comm::Task& task, tuttiStream_t stream, const Over& over) {
  auto& request = std::get<comm::Request>(task.work);
  request.extras = &task.extras;
  if (request.counts != nullptr) request.counts = &task.counts.view();
  const Result<exec::StreamPlace> where = place_of(stream, *task.communicator);
  if (!where.ok()) return where.status();
  if (Status status = check_places(request, *task.communicator); !status.ok()) return status;
  if (Status s = take_scalar(task.extras.scalar, request.type); !s.ok()) return s;
  return task.communicator->enqueue(request, where.value(), over);
}

Status put_transfers(comm::Task& task, std::span<const tuttiStream_t> streams, const Over& over) {
  std::vector<exec::StreamPlace> where;
  for (const tuttiStream_t& stream : streams) {
    const bool known = std::any_of(where.begin(), where.end(),
                                   [&](const auto& one) { return one.stream == stream.handle; });
    if (known) continue;
    const Result<exec::StreamPlace> place = place_of(stream, *task.communicator);
    if (!place.ok()) return place.status();
    where.push_back(place.value());
  }
  for (const exec::Transfer& transfer : task.transfers()) {
    if (transfer.bytes == 0) continue;
    const Status status =
        check_place(transfer.data, transfer.is_send ? "send" : "recv", "the buffer");
    if (!status.ok()) return status;
  }
  const uint64_t timeout_ns = task.communicator->options_of(&task.extras).timeout_ns;
  return task.communicator->enqueue(task.transfers(), std::move(where), timeout_ns, over);
}

Status put(comm::Task& task, std::span<const tuttiStream_t> streams, const Over& over) {
  return task.is_request() ? put_request(task, streams.front(), over)
                           : put_transfers(task, streams, over);
}

}  // namespace

exec::Device& device() { return *registry::find_device("cuda"); }

Result<bool> is_device_memory(const void* address) {
  if (address == nullptr) return false;
  const Result<exec::MemoryPlace> place = device().place_of(address);
  if (!place.ok()) return place.status();
  return place.value() == exec::MemoryPlace::kDevice;
}

void look_for_device_memory() {
  if (device().is_present()) device_memory_seen.store(true, std::memory_order_relaxed);
}

Status check_device_stream(tuttiStream_t stream) {
  if (stream.reserved != 0) return Status::invalid_argument("stream.reserved must be 0");
  if (!may_have_device_memory()) look_for_device_memory();
  if (may_have_device_memory()) return {};
  return Status::invalid_usage(
      "a CUDA stream in a process that has not loaded the CUDA driver (libcuda.so.1)");
}

Result<exec::StreamPlace> place_of(tuttiStream_t stream, const comm::Communicator& communicator) {
  return device().place_of_stream(stream.handle, communicator.device_place());
}

EngineWish engine_of(const comm::Task& task) {
  return task.communicator->options_of(&task.extras).engine;
}

bool is_direct(const comm::Task& task, std::span<const tuttiStream_t> streams) {
  if (!is_of_device(streams.front())) return false;
  if (task.is_transfer()) return task.communicator->takes_transfers_on_device(engine_of(task));
  return task.is_request() &&
         task.communicator->takes_on_device(std::get<comm::Request>(task.work), engine_of(task));
}

// One-sided accesses have no other way.
Status check_engine(const comm::Task& task, std::span<const tuttiStream_t> streams) {
  if (std::none_of(streams.begin(), streams.end(), is_of_device) || is_direct(task, streams)) {
    return {};
  }
  if (task.is_transfer()) {
    return task.communicator->check_by_host("send and receive", nullptr, engine_of(task));
  }
  if (!task.is_request()) return {};
  const auto& request = std::get<comm::Request>(task.work);
  return task.communicator->check_by_host(comm::name_of(request), &request, engine_of(task));
}

Status declare_by_host(const comm::Task& task, std::span<const tuttiStream_t> streams) {
  if (!is_of_device(streams.front()) || engine_of(task) != EngineWish::kHost) return {};
  if (task.is_transfer()) return task.communicator->declare_by_host(task.transfers());
  if (!task.is_request()) return {};
  comm::Request request = std::get<comm::Request>(task.work);
  request.extras = &task.extras;
  if (request.counts != nullptr) request.counts = &task.counts.view();
  return task.communicator->declare_by_host(request);
}

// It counts as queued until the streams are past it: what ends a communicator waits for that.
Status enqueue_direct(comm::Task& task, std::span<const tuttiStream_t> streams) {
  comm::Communicator* const communicator = task.communicator;
  const auto over = [communicator, handles = task.handles](const Status& status) {
    communicator->pending.fetch_sub(1, std::memory_order_release);
    for (const auto& handle : handles) handle->finish(status);
  };
  communicator->pending.fetch_add(1, std::memory_order_relaxed);
  const Status status = put(task, streams, over);
  if (!status.ok()) over(status);
  return status;
}

Result<std::unique_ptr<exec::DeviceAllocation>> allocate_for(tuttiStream_t stream, size_t bytes) {
  return device().allocate(stream.handle, bytes);
}

namespace {

/// For each device stream of the task, `make` makes the crossing of what it loads there.
template <class Make>
Status cross_each(comm::Task& task, const DeviceStreams& on, Make make) {
  std::vector<void*> handles;
  for (size_t i = 0; i < on.streams.size(); ++i) {
    const tuttiStream_t& stream = on.streams[i];
    const bool known = std::find(handles.begin(), handles.end(), stream.handle) != handles.end();
    if (!is_of_device(stream) || known) continue;
    handles.push_back(stream.handle);
    Load load;
    if (Status s = load_work(load, task, on.streams, stream.handle); !s.ok()) return s;
    const Result<std::shared_ptr<exec::Crossing>> crossing = make(on.places[i], load);
    if (!crossing.ok()) return crossing.status();
    apply(load, *crossing.value());
  }
  return {};
}

}  // namespace

Result<Crossings> cross(comm::Task& task, const DeviceStreams& on) {
  Crossings made;
  const Status status = cross_each(task, on, [&](const exec::StreamPlace& where, const Load& load) {
    auto crossing = device().cross(where, load.input.pieces(), load.output.pieces());
    if (!crossing.ok()) return crossing;
    made.push_back(crossing.value());
    task.fences.push_back(crossing.value()->fence());
    return crossing;
  });
  if (!status.ok()) return status;
  return made;
}

Status cross_captured(comm::CapturedTask& captured, const DeviceStreams& on) {
  const auto make = [&](const exec::StreamPlace& where, const Load& load) {
    auto crossing = device().cross_captured(where, load.input.pieces(), load.output.pieces(),
                                            [&captured] { captured.arrived(); });
    if (crossing.ok()) captured.add(crossing.value());
    return crossing;
  };
  return cross_each(captured.task(), on, make);
}

Status check_host_memory(const comm::Request& request, const comm::Communicator& communicator) {
  const Buffers buffers = buffers_of(request, communicator);
  const auto check = [&](const std::vector<Share>& shares, const void* memory, const char* name) {
    return has_bytes(shares)
               ? refuse_device(std::string(comm::name_of(request)) + ": " + name, memory)
               : Status();
  };
  if (Status status = check(buffers.send, request.send, "send"); !status.ok()) return status;
  return check(buffers.recv, request.recv, "recv");
}

Status check_host_memory(const exec::Transfer& transfer, const comm::Communicator&) {
  if (transfer.bytes == 0) return {};
  return refuse_device(transfer.is_send ? "send: the buffer" : "recv: the buffer", transfer.data);
}

Status check_host_memory(const comm::Access& access, const comm::Communicator&) {
  if (access.bytes == 0) return {};
  return refuse_device(std::string(comm::name_of(access.kind)) + ": the local buffer",
                       access.local);
}

}  // namespace tutti::api
