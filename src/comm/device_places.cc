#include "src/comm/device_places.h"

#include <algorithm>
#include <utility>

#include "src/comm/call_buffers.h"
#include "src/exec/registrations.h"
#include "src/schedule/layout.h"

namespace tutti::comm {
namespace {

using schedule::Collective;

/// Which buffer of every rank is at one place, as far as all ranks can know.
enum class ReadBuffer : uint8_t { kNothing, kInput, kOutput };

ReadBuffer buffer_read_in(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduceScatter:
    case Collective::kReduce:
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return ReadBuffer::kInput;
    case Collective::kBroadcast:
      return ReadBuffer::kOutput;  // the root's input is its own affair
    default:
      // A gather's root alone knows whether it is in place, a scatter's root alone has an input,
      // and the two ends of a transfer have buffers of their own.
      return ReadBuffer::kNothing;
  }
}

/// Why not every rank knows where peers' inputs lie in a collective with a count for each rank.
Status objection_to_counts(const Request& request, bool in_place) {
  const CountView& view = *request.counts;
  if (view.is_private()) {
    return Status::unsupported("not all ranks know where the buffers that are read lie");
  }
  if (view.send_counts != nullptr) {
    if (is_packed(view, view.send_counts, view.send_offsets)) return {};
    return Status::unsupported("its input has gaps, or another order, which only this rank knows");
  }
  if (in_place) {
    return Status::unsupported("in place the inputs lie at a place of its own on each rank");
  }
  const auto counts = view.span(view.public_counts());
  if (std::ranges::find(counts, 0u) == counts.end()) return {};
  return Status::unsupported("some rank has no input, so it has no place");
}

/// Bytes of the buffer that peers read, on the rank; on every rank but for an all_gather_v.
uint64_t bytes_read(const Request& request, int rank, int ranks) {
  if (request.counts != nullptr) {
    return input_elements_of(*request.counts, rank) * types::size_of(request.type);
  }
  const schedule::Shape shape = shape_of_buffers(request, ranks);
  const bool of_output = buffer_read_in(request.collective) == ReadBuffer::kOutput;
  const uint64_t elements = of_output
                                ? schedule::output_elements(shape, request.root, request.count)
                                : schedule::input_elements(shape, request.root, request.count);
  return elements * types::size_of(request.type);
}

/// The same of the rank that brings the most.
uint64_t most_bytes_read(const Request& request, int ranks) {
  uint64_t most = 0;
  const bool differs = request.counts != nullptr && request.counts->send_counts == nullptr;
  for (int rank = 0; rank < (differs ? ranks : 1); ++rank) {
    most = std::max(most, bytes_read(request, rank, ranks));
  }
  return most;
}

uint64_t mixed(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

/// In place, peers may read a direct message when a receive of the same call has overwritten it.
bool is_received_over(const exec::Transfer& sent, std::span<const exec::Transfer> transfers) {
  const auto begin = reinterpret_cast<uintptr_t>(sent.data);
  return std::ranges::any_of(transfers, [&](const exec::Transfer& other) {
    const auto at = reinterpret_cast<uintptr_t>(other.data);
    return !other.is_send && at < begin + sent.bytes && begin < at + other.bytes;
  });
}

static_assert(exec::Registration::kOffsetBits == diagnosis::DescribedCall::kOffsetBits);

/// As diagnosis::DescribedCall has it; 0 is none.
uint64_t word_of(uint64_t handle, uint64_t offset) {
  const uint64_t number = (handle - DevicePlaces::kFirstHandle) % exec::Registration::kNumbers;
  return number << exec::Registration::kOffsetBits | offset;
}

}  // namespace

uint64_t DevicePlaces::add(std::byte* memory, uint64_t bytes,
                           Result<std::shared_ptr<const exec::PeerMemory>> shared) {
  const MutexLock lock(mutex_);
  all_.push_back({++last_handle_, memory, bytes, std::move(shared)});
  ++changes_;
  refresh();
  return last_handle_;
}

std::map<uint64_t, uint64_t> DevicePlaces::list() const {
  std::map<uint64_t, uint64_t> bytes;
  const MutexLock lock(mutex_);
  for (const Registered& one : all_) bytes[one.handle] = one.bytes;
  return bytes;
}

uint64_t DevicePlaces::last_handle() const {
  const MutexLock lock(mutex_);
  return last_handle_;
}

void DevicePlaces::go_on_behind(uint64_t last) {
  const MutexLock lock(mutex_);
  last_handle_ = std::max(last_handle_, last);
}

Status DevicePlaces::take_over(const DevicePlaces& before, const std::set<uint64_t>& of_all,
                               const Share& share) {
  std::vector<Registered> kept;
  std::set<uint64_t> unused;
  {
    const MutexLock lock(before.mutex_);
    unused = before.unused_;
    for (const Registered& old : before.all_) {
      if (of_all.contains(old.handle)) kept.push_back(old);
      if (!of_all.contains(old.handle)) unused.insert(old.handle);
    }
  }
  for (Registered& one : kept) {
    one.shared = share(one.memory, one.bytes);
    const Status shared = one.shared.status();
    if (!shared.ok() && shared.code() != Code::kUnsupported) return shared;
  }
  const MutexLock lock(mutex_);
  all_ = std::move(kept);
  unused_ = std::move(unused);
  refresh();
  return {};
}

bool DevicePlaces::remove(uint64_t handle) {
  const MutexLock lock(mutex_);
  if (unused_.erase(handle) > 0) return true;
  const size_t removed =
      std::erase_if(all_, [handle](const Registered& one) { return one.handle == handle; });
  if (removed > 0) {
    ++changes_;
    refresh();
  }
  return removed > 0;
}

void DevicePlaces::refresh() {
  Memories memories;
  for (const Registered& one : all_) {
    if (one.shared.ok()) memories.push_back(one.shared.value());
  }
  shared_ = memories.empty() ? nullptr : std::make_shared<const Memories>(std::move(memories));
  has_any_.store(!all_.empty(), std::memory_order_relaxed);
}

uint32_t DevicePlaces::mark_here() const {
  if (shared_ == nullptr) return 0;
  return static_cast<uint32_t>(changes_ % exec::RegisteredTransfers::kMostMark) + 1;
}

uint32_t DevicePlaces::mark() const {
  if (!has_any_.load(std::memory_order_relaxed)) return 0;
  const MutexLock lock(mutex_);
  return mark_here();
}

exec::RegisteredTransfers DevicePlaces::find(std::span<const exec::Transfer> transfers, int rank,
                                             uint64_t piece_bytes) const {
  exec::RegisteredTransfers found;
  if (!has_any_.load(std::memory_order_relaxed)) return found;
  uint32_t mark = 0;
  {
    const MutexLock lock(mutex_);
    mark = mark_here();
    found.kept = shared_;
  }
  if (mark == 0) return found;
  found.marks.assign(transfers.size(), 0);
  found.places.assign(transfers.size(), 0);
  for (size_t i = 0; i < transfers.size(); ++i) {
    const exec::Transfer& transfer = transfers[i];
    if (transfer.peer == static_cast<uint32_t>(rank) || transfer.bytes <= piece_bytes) continue;
    found.marks[i] = mark;
    if (!transfer.is_send || is_received_over(transfer, transfers)) continue;
    const Result<RegisteredPlace> place = place_of(transfer.data, transfer.bytes, "send");
    if (!place.ok()) continue;
    const std::span<const uint64_t> seen = place.value().memory->seen_at();
    if (transfer.peer >= seen.size() || seen[transfer.peer] == 0) continue;
    found.places[i] = seen[transfer.peer] + place.value().offset;
  }
  return found;
}

// Of several the last one: ranks register in the same order.
Result<DevicePlaces::RegisteredPlace> DevicePlaces::place_of(const void* buffer, uint64_t bytes,
                                                             const char* name) const {
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  const MutexLock lock(mutex_);
  for (auto one = all_.rbegin(); one != all_.rend(); ++one) {
    const uint64_t offset = begin - reinterpret_cast<uintptr_t>(one->memory);
    if (offset > one->bytes || bytes > one->bytes - offset) continue;
    if (!one->shared.ok()) return one->shared.status();
    if (one->shared.value()->is_there())
      return RegisteredPlace{one->handle, offset, one->shared.value()};
  }
  return Status::unsupported(std::string(name) + " is not in registered memory");
}

Result<RegisteredCall> DevicePlaces::shape_of(const Request& request, bool in_place, int ranks,
                                              uint64_t least_bytes) {
  const ReadBuffer read = buffer_read_in(request.collective);
  if (ranks == 1) return Status::unsupported("there is no peer");
  if (read == ReadBuffer::kNothing) {
    return Status::unsupported("not all ranks know where the buffers that are read lie");
  }
  if (request.counts != nullptr) {
    if (Status why = objection_to_counts(request, in_place); !why.ok()) return why;
  }
  if (request.op == types::ReduceOp::kScaledSum && schedule::reduces(request.collective)) {
    return Status::unsupported("what is scaled is multiplied where it is staged");
  }
  if (most_bytes_read(request, ranks) < least_bytes) {
    return Status::unsupported("less than " + std::to_string(least_bytes) +
                               " bytes are staged in one frame");
  }
  RegisteredCall call;
  call.in_place = in_place || read == ReadBuffer::kOutput;
  if (request.collective == Collective::kAllReduce) call.mode = plan::Mode::kPull;
  return call;
}

Result<RegisteredCall> DevicePlaces::find(const Request& request, bool in_place, int rank,
                                          int ranks, uint64_t least_bytes) const {
  const Result<RegisteredCall> direct = shape_of(request, in_place, ranks, least_bytes);
  if (!direct.ok()) return direct;
  if (!has_any_.load(std::memory_order_relaxed)) {
    return Status::unsupported("no device memory is registered");
  }
  RegisteredCall call = direct.value();
  const uint64_t bytes = bytes_read(request, rank, ranks);
  const schedule::Shape shape = shape_of_buffers(request, ranks);
  const uint64_t out =
      schedule::output_elements(shape, rank, request.count) * types::size_of(request.type);
  const bool of_output = buffer_read_in(request.collective) == ReadBuffer::kOutput;
  // In place the inputs may be the parts of outputs.
  const bool are_parts =
      in_place && schedule::traits_of(request.collective).nests(schedule::Space::kInput);
  const bool in_recv = of_output || are_parts;
  const Result<RegisteredPlace> read =
      in_recv ? place_of(request.recv, out, "recv") : place_of(request.send, bytes, "send");
  if (!read.ok()) return read.status();
  call.inputs = {read.value().memory, read.value().offset, are_parts ? bytes : 0};
  call.place = word_of(read.value().handle, call.inputs.offset);
  uint64_t mark = mixed(mixed(1, call.place), call.inputs.stride);
  if (call.mode == plan::Mode::kPull) {
    const Result<RegisteredPlace> written = place_of(request.recv, out, "recv");
    if (written.ok()) {
      call.outputs = {written.value().memory, written.value().offset, 0};
      mark = mixed(mark, word_of(written.value().handle, written.value().offset));
    } else {
      call.mode = plan::Mode::kPullInputs;
    }
  }
  if (of_output && rank == request.root && request.send != request.recv) call.first_copied = bytes;
  call.mark = static_cast<uint32_t>(mark);
  return call;
}

}  // namespace tutti::comm
