#include "src/exec/pairs.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/exec/stall.h"
#include "src/types/kernels.h"

namespace tutti::exec {
namespace {

constexpr uint64_t kHeaderBytes = 16;
constexpr uint64_t kRingBytes = 64 << 10;
constexpr uint32_t kPairLane = kLanes;  // the stream lane behind those of plans

constexpr uint64_t padded(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

}  // namespace

/// `produced` and `mark` belong to the sender, `consumed` to the receiver; the counters are of
/// bytes and only rise.
struct PairExecutor::Ring {
  Flag* produced;
  Flag* mark;  // a StagingMark, by the same count
  Flag* consumed;
  std::byte* data;
};

PairExecutor::PairExecutor(HostExecutor& executor)
    : executor_(executor),
      tails_(2 * executor.peers().size(), kNone),
      begun_(2 * executor.peers().size(), executor.options().calls_before),
      sent_(executor.peers().size(), 0),
      received_(executor.peers().size(), 0) {
  static_assert(kPairBytes >= 2 * kLineBytes + kRingBytes);
  trace::Recorder* recorder = executor.options().recorder;
  for (int type = 0; recorder != nullptr && type < types::kDataTypes; ++type) {
    type_names_.push_back(recorder->name(types::name_of(static_cast<types::DataType>(type))));
  }
}

PairExecutor::Ring PairExecutor::ring_of(const Active& active) const {
  const auto rank = static_cast<uint32_t>(executor_.options().rank);
  const uint32_t source = active.transfer.is_send ? rank : active.transfer.peer;
  const uint32_t target = active.transfer.is_send ? active.transfer.peer : rank;
  std::byte* base = executor_.peers()[source].arena.pairs() + target * kPairBytes;
  auto* const produced = reinterpret_cast<Flag*>(base);
  auto* const consumed = reinterpret_cast<Flag*>(base + kLineBytes);
  return {produced, produced + 1, consumed, base + 2 * kLineBytes};
}

void PairExecutor::start(std::span<const Transfer> transfers) {
  active_.clear();
  for (const Transfer& transfer : transfers) active_.push_back({transfer});
  number_all();
  pair_with_myself();
  line_up();
}

// Both ends of a transfer give it the same number, as transfers pair in order.
void PairExecutor::number_all() {
  for (Active& active : active_) active.number = ++begun_[way(active.transfer)];
  trace::Recorder* recorder = executor_.options().recorder;
  if (recorder != nullptr) tell_lines(*recorder, nullptr);
}

void PairExecutor::tell_progress(trace::Recorder& recorder, const Stall& stall) const {
  tell_lines(recorder, &stall);
}

// The lines of a call stay in its order, which is the program's.
void PairExecutor::tell_lines(trace::Recorder& recorder, const Stall* stall) const {
  const uint32_t room = recorder.open_lines(active_.size());
  for (uint32_t i = 0; i < room; ++i) {
    const Active& active = active_[i];
    const Transfer& transfer = active.transfer;
    trace::Exchange exchange{.peer = transfer.peer, .sends = transfer.is_send};
    exchange.type = type_names_[static_cast<size_t>(transfer.type)];
    exchange.number = active.number;
    exchange.bytes = transfer.bytes;
    exchange.moved = active.done ? transfer.bytes : std::min(active.moved, transfer.bytes);
    exchange.messages = 1;
    exchange.complete = active.done ? 1 : 0;
    if (stall != nullptr) stall->describe_peer(exchange);
    recorder.set_line(i, exchange);
  }
}

// A ring takes one transfer after the other; a stream keeps them in order itself.
void PairExecutor::line_up() {
  open_.clear();
  const auto tail_of = [&](const Transfer& transfer) -> uint32_t& { return tails_[way(transfer)]; };
  for (uint32_t i = 0; i < active_.size(); ++i) {
    const Active& active = active_[i];
    if (active.done) continue;
    uint32_t& tail = tail_of(active.transfer);
    const bool ring = executor_.peers()[active.transfer.peer].arena.valid();
    if (ring && tail != kNone) {
      active_[tail].next = i;
    } else {
      open_.push_back(i);
    }
    tail = i;
  }
  for (const Active& active : active_) tail_of(active.transfer) = kNone;
}

// The k-th send to myself meets the k-th receive from myself in this group; none may be left.
void PairExecutor::pair_with_myself() {
  const auto rank = static_cast<uint32_t>(executor_.options().rank);
  const auto next = [&](size_t from, bool is_send) {
    while (from < active_.size() &&
           (active_[from].transfer.peer != rank || active_[from].transfer.is_send != is_send)) {
      ++from;
    }
    return from;
  };
  size_t send = next(0, true), receive = next(0, false);
  for (; send < active_.size() && receive < active_.size();
       send = next(send + 1, true), receive = next(receive + 1, false)) {
    Active& from = active_[send];
    Active& to = active_[receive];
    if (from.transfer.bytes != to.transfer.bytes) break;
    std::memmove(to.transfer.data, from.transfer.data, from.transfer.bytes);
    from.done = to.done = true;
  }
  if (send == active_.size() && receive == active_.size()) return;
  executor_.expect(rank);
  executor_.fail(Status::invalid_usage(
      "rank " + std::to_string(rank) +
      " sends to itself without an equal receive from itself in the same group"));
}

Progress PairExecutor::advance() {
  bool moved = false;
  size_t kept = 0;
  for (uint32_t at : open_) {
    while (at != kNone && executor_.status().ok()) {
      moved = step(active_[at]) || moved;
      if (!active_[at].done) break;
      at = active_[at].next;
    }
    if (at != kNone) open_[kept++] = at;
  }
  open_.resize(kept);
  if (open_.empty() || !executor_.status().ok()) return Progress::kDone;
  return moved ? Progress::kMoved : Progress::kBlocked;
}

Status PairExecutor::run(std::span<const Transfer> transfers) {
  if (!executor_.status().ok()) return executor_.status();
  start(transfers);
  return executor_.wait([this] { return advance(); });
}

bool PairExecutor::step(Active& active) {
  executor_.expect(active.transfer.peer);
  return executor_.peers()[active.transfer.peer].arena.valid() ? step_ring(active)
                                                               : step_stream(active);
}

bool PairExecutor::step_stream(Active& active) {
  transport::Stream& stream = *executor_.peers()[active.transfer.peer].stream;
  const Transfer& transfer = active.transfer;
  if (!active.announced) {
    const ExecutorOptions& options = executor_.options();
    const transport::ChannelId channel{options.communicator, options.epoch, kPairLane};
    const transport::Buffer target{transfer.data, transfer.bytes};
    const transport::ConstBuffer source{transfer.data, transfer.bytes};
    active.ticket = transfer.is_send ? stream.send(channel, 1, {&source, 1})
                                     : stream.receive(channel, 1, {&target, 1});
    active.announced = true;
  }
  active.done = transfer.is_send ? stream.sent(active.ticket) : stream.received(active.ticket);
  return active.done;
}

bool PairExecutor::step_ring(Active& active) {
  Ring ring = ring_of(active);
  const bool is_send = active.transfer.is_send;
  uint64_t& mine = is_send ? sent_[active.transfer.peer] : received_[active.transfer.peer];
  const uint64_t other = (is_send ? ring.consumed : ring.produced)->load(std::memory_order_acquire);
  uint64_t room = is_send ? kRingBytes - (mine - other) : other - mine;
  const bool begins = !active.announced;
  if (begins) {
    if (room < kHeaderBytes || !announce(active, ring, mine)) return false;
    room -= kHeaderBytes;
  }
  const uint64_t left = padded(active.transfer.bytes) - active.moved;
  const uint64_t now = std::min(left, room);
  if (now == 0 && !begins) return false;  // so that whoever waits looks at deadlines and deaths
  if (now > 0) copy(active, ring, mine, now);
  mine += now;
  active.moved += now;
  active.done = active.moved == padded(active.transfer.bytes);
  (is_send ? ring.produced : ring.consumed)->store(mine, std::memory_order_release);
  return true;
}

// Writes or reads the header at `at`; false after a mismatch.
bool PairExecutor::announce(Active& active, Ring& ring, uint64_t& at) {
  std::byte* header = ring.data + at % kRingBytes;
  active.announced = true;
  at += kHeaderBytes;
  if (active.transfer.is_send) {
    std::memcpy(header, &active.transfer.bytes, sizeof active.transfer.bytes);
    return true;
  }
  uint64_t bytes = 0;
  std::memcpy(&bytes, header, sizeof bytes);
  if (bytes == active.transfer.bytes) return true;
  executor_.fail(Status::invalid_usage("rank " + std::to_string(active.transfer.peer) + " sent " +
                                       std::to_string(bytes) + " bytes where rank " +
                                       std::to_string(executor_.options().rank) + " receives " +
                                       std::to_string(active.transfer.bytes)));
  return false;
}

// Moves up to `room` bytes, padding included, between the ring at `at` and the user's memory.
uint64_t PairExecutor::copy(Active& active, Ring& ring, uint64_t at, uint64_t room) {
  uint64_t copied = 0;
  while (copied < room) {
    const uint64_t place = (at + copied) % kRingBytes;
    const uint64_t offset = active.moved + copied;
    const uint64_t span = std::min(room - copied, kRingBytes - place);
    const uint64_t left = offset < active.transfer.bytes ? active.transfer.bytes - offset : 0;
    const uint64_t bytes = std::min(span, left);
    std::byte* const user = active.transfer.data + offset;
    std::byte* const slot = ring.data + place;
    if (bytes > 0 && active.transfer.is_send) {
      const StagingWriter::Order order{*ring.mark, at + copied};
      executor_.staging_writer()(bytes, true, order, [&](bool streaming) {
        if (streaming) return types::copy_streaming(slot, user, bytes);
        std::memcpy(slot, user, bytes);
      });
    } else if (bytes > 0) {
      const StagingMark mark(ring.mark->load(std::memory_order_relaxed));
      const auto read = [&] { std::memcpy(user, slot, bytes); };
      executor_.staging_reader()(bytes, mark, at + copied, bytes, read);
    }
    copied += span;
  }
  return copied;
}

}  // namespace tutti::exec
