#include "src/exec/pairs.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/diagnosis/stall.h"
#include "src/types/kernels.h"

namespace tutti::exec {
namespace {

// A message up to this size is sent before all that is not needed for it, and the lines behind its
// head are fetched together with it.
constexpr uint64_t kPromptBytes = 1024;

constexpr bool is_short(const Transfer& transfer) {
  return transfer.bytes <= PairHead::kShortBytes;
}

// Calls pair(send, receive) for the indices of the k-th send of `rank` to itself and the k-th
// receive, as long as it returns true. Whether there was nothing else.
template <class TransferAt, class Pair>
bool pair_own(size_t count, uint32_t rank, TransferAt transfer_at, Pair pair) {
  const auto next = [&](size_t from, bool is_send) {
    while (from < count &&
           (transfer_at(from).peer != rank || transfer_at(from).is_send != is_send)) {
      ++from;
    }
    return from;
  };
  size_t send = next(0, true), receive = next(0, false);
  for (; send < count && receive < count;
       send = next(send + 1, true), receive = next(receive + 1, false)) {
    if (!pair(send, receive)) return false;
  }
  return send == count && receive == count;
}

template <class Line>
void for_prompt_lines(const PairChannel& channel, uint64_t at, const Transfer& transfer,
                      Line line) {
  if (is_short(transfer) || transfer.bytes > kPromptBytes) return;
  for (uint64_t i = 0; i < transfer.bytes; i += kPrefetchedBytes) line(channel.at(at + i));
}

}  // namespace

Status check_own_transfers(std::span<const Transfer> transfers, int rank) {
  const auto is_own = [rank](const Transfer& transfer) {
    return transfer.peer == static_cast<uint32_t>(rank);
  };
  if (std::none_of(transfers.begin(), transfers.end(), is_own)) return {};
  const auto at = [&](size_t i) -> const Transfer& { return transfers[i]; };
  const auto are_equal = [&](size_t send, size_t receive) {
    return transfers[send].bytes == transfers[receive].bytes;
  };
  if (pair_own(transfers.size(), static_cast<uint32_t>(rank), at, are_equal)) return {};
  return Status::invalid_usage(
      "rank " + std::to_string(rank) +
      " sends to itself without an equal receive from itself in the same group");
}

PairExecutor::PairExecutor(HostExecutor& executor)
    : state_(executor.state()),
      writer_(executor.machine().staging_writer()),
      reader_(executor.machine().staging_reader()),
      directions_(2 * executor.state().peers().size()) {
  const auto rank = static_cast<uint32_t>(state_.options().rank);
  const std::vector<Peer>& peers = state_.peers();
  for (uint32_t peer = 0; peer < peers.size(); ++peer) {
    for (const bool is_send : {false, true}) {
      PairDirection& direction = directions_[place_of({peer, is_send})];
      direction.begun = state_.options().calls_before;
      if (!peers[peer].arena.valid()) continue;
      const uint32_t source = is_send ? rank : peer;
      const uint32_t target = is_send ? peer : rank;
      direction.channel = peers[source].arena.pairs() + target * kPairBytes;
    }
  }
  trace::Recorder* recorder = state_.options().recorder;
  for (int type = 0; recorder != nullptr && type < types::kDataTypes; ++type) {
    type_names_.push_back(recorder->name(types::name_of(static_cast<types::DataType>(type))));
  }
}

void PairExecutor::start(std::span<const Transfer> transfers) {
  if (line_up(transfers)) pair_with_myself();
  tell_lines();
}

// Messages that others may wait for go first. The rank's own work comes before it looks for their
// messages, since a look at a line that is about to be written takes the line away from its writer.
// Long sends come behind the lines: reading their buffers may end this process. A stream takes its
// sends in the order of the call, long ones or not.
Status PairExecutor::run(std::span<const Transfer> transfers) {
  if (!state_.status().ok()) return state_.status();
  const bool is_mine = line_up(transfers);
  for (const uint32_t at : open_) {
    const Transfer& transfer = active_[at].transfer;
    const bool is_prompt = transfer.is_send && transfer.bytes <= kPromptBytes;
    if (is_prompt && active_[at].direction->channel != nullptr) (void)step(active_[at]);
  }
  tell_lines();
  for (const uint32_t at : open_) take_next_head(active_[at]);
  if (is_mine) pair_with_myself();
  return state_.wait([this] { return advance(); });
}

// A channel takes one after the other, and so do the slots of a bounce buffer; a stream keeps them
// in order itself. Whether some are with
// myself, which are not in line.
bool PairExecutor::line_up(std::span<const Transfer> transfers) {
  const auto rank = static_cast<uint32_t>(state_.options().rank);
  bool is_mine = false;
  active_.clear();
  open_.clear();
  ++calls_;
  for (uint32_t i = 0; i < transfers.size(); ++i) {
    PairDirection& direction = directions_[place_of(transfers[i])];
    active_.emplace_back(transfers[i], direction);
    if (transfers[i].peer == rank) {
      is_mine = true;
      continue;
    }
    const bool is_in_order = direction.channel != nullptr || bounce_ != nullptr;
    if (is_in_order && direction.call == calls_) {
      active_[direction.last].next = i;
    } else {
      open_.push_back(i);
    }
    direction.call = calls_;
    direction.last = i;
  }
  return is_mine;
}

inline trace::ExchangeState PairExecutor::exchange_of(const Active& active) const {
  const Transfer& transfer = active.transfer;
  return {.peer = transfer.peer,
          .sends = transfer.is_send,
          .type = type_names_[static_cast<size_t>(transfer.type)],
          .number = active.number,
          .bytes = transfer.bytes,
          .moved = active.done ? transfer.bytes : active.moved,
          .messages = 1,
          .complete = active.done ? 1u : 0u};
}

// The lines of a call stay in its order, which is the program's.
void PairExecutor::tell_lines() const {
  trace::Recorder* const recorder = state_.options().recorder;
  if (recorder == nullptr) return;
  const uint32_t room = recorder->open_lines(active_.size());
  for (uint32_t i = 0; i < room; ++i) recorder->set_line(i, exchange_of(active_[i]));
}

void PairExecutor::tell_progress(trace::Recorder& recorder, const Stall& stall) const {
  const uint32_t room = recorder.open_lines(active_.size());
  for (uint32_t i = 0; i < room; ++i) {
    trace::ExchangeState exchange = exchange_of(active_[i]);
    stall.describe_peer(exchange);
    recorder.set_line(i, exchange);
  }
}

void PairExecutor::pair_with_myself() {
  const auto at = [this](size_t i) -> const Transfer& { return active_[i].transfer; };
  const auto copy = [this](size_t send, size_t receive) {
    Active& from = active_[send];
    Active& to = active_[receive];
    if (from.transfer.bytes > 0) {
      std::memmove(to.transfer.data, from.transfer.data, from.transfer.bytes);
    }
    return from.done = to.done = true;
  };
  (void)pair_own(active_.size(), static_cast<uint32_t>(state_.options().rank), at, copy);
}

Progress PairExecutor::advance() {
  // In one direction; who runs this looks between the turns at what is rare.
  constexpr uint32_t kMostSteps = 64;
  bool moved = false;
  size_t kept = 0;
  for (uint32_t at : open_) {
    for (uint32_t steps = 0; at != kNone && steps < kMostSteps && state_.status().ok(); ++steps) {
      if (!active_[at].done) moved = step(active_[at]) || moved;
      if (!active_[at].done) break;
      at = active_[at].next;
    }
    if (at != kNone) open_[kept++] = at;
  }
  open_.resize(kept);
  if (open_.empty() || !state_.status().ok()) {
    end_bounced();
    return Progress::kDone;
  }
  return moved ? Progress::kMoved : Progress::kBlocked;
}

bool PairExecutor::step(Active& active) {
  state_.expect(active.transfer.peer);
  if (active.direction->channel == nullptr) {
    return bounce_ != nullptr ? step_bounced(active) : step_stream(active);
  }
  return active.transfer.is_send ? step_send(active) : step_receive(active);
}

bool PairExecutor::step_stream(Active& active) {
  transport::Stream& stream = *state_.peers()[active.transfer.peer].stream;
  const Transfer& transfer = active.transfer;
  if (!active.begun) {
    const transport::ChannelId channel = pair_channel();
    const transport::Buffer target{transfer.data, transfer.bytes};
    const transport::ConstBuffer source{transfer.data, transfer.bytes};
    active.ticket = transfer.is_send ? stream.send(channel, 1, {&source, 1})
                                     : stream.receive(channel, 1, {&target, 1});
    active.begun = true;
  }
  active.done = transfer.is_send ? stream.sent(active.ticket) : stream.received(active.ticket);
  return active.done;
}

bool PairExecutor::step_send(Active& active) {
  const Transfer& transfer = active.transfer;
  PairDirection& mine = *active.direction;
  const PairChannel channel(mine.channel);
  if (!active.begun && mine.heads - mine.others_heads == PairChannel::kHeads) {
    mine.others_heads = channel.read.load(std::memory_order_acquire);
    if (mine.heads - mine.others_heads == PairChannel::kHeads) return false;
  }
  if (is_short(transfer)) {
    PairHead& head = channel.head(mine.heads);
    if (transfer.bytes > 0) std::memcpy(head.payload, transfer.data, transfer.bytes);
    active.done = true;
  } else {
    const uint64_t left = PairChannel::padded(transfer.bytes) - active.moved;
    const uint64_t now = std::min(left, PairChannel::kPieceBytes);
    if (PairChannel::kRingBytes - (mine.bytes - mine.others_bytes) < now) {
      mine.others_bytes = channel.consumed.load(std::memory_order_acquire);
      if (PairChannel::kRingBytes - (mine.bytes - mine.others_bytes) < now) return false;
    }
    write_piece(active, channel, mine.bytes, now);
    mine.bytes += now;
    active.moved += now;
    active.done = now == left;
  }
  if (active.begun) {
    channel.produced.store(mine.bytes, std::memory_order_release);
  } else {
    PairHead& head = channel.head(mine.heads);
    head.bytes = transfer.bytes;
    head.number.store(++mine.heads, std::memory_order_release);
    active.begun = true;
  }
  return true;
}

bool PairExecutor::step_receive(Active& active) {
  const Transfer& transfer = active.transfer;
  PairDirection& mine = *active.direction;
  const PairChannel channel(mine.channel);
  if (!active.begun) {
    if (!begin_receive(active, channel)) return false;
    if (active.done) return true;
  } else if (mine.others_bytes <= mine.bytes) {
    mine.others_bytes = channel.produced.load(std::memory_order_acquire);
    if (mine.others_bytes <= mine.bytes) return false;
  }
  const uint64_t left = PairChannel::padded(transfer.bytes) - active.moved;
  const uint64_t now = std::min(left, mine.others_bytes - mine.bytes);
  read_piece(active, channel, mine.bytes, now);
  mine.bytes += now;
  active.moved += now;
  active.done = now == left;
  channel.consumed.store(mine.bytes, std::memory_order_release);
  return true;
}

// False if the message has not come, or is another one. A short one is received with it; of a
// longer one it is known then how much there is.
bool PairExecutor::begin_receive(Active& active, const PairChannel& channel) {
  const Transfer& transfer = active.transfer;
  PairDirection& mine = *active.direction;
  for_prompt_lines(channel, mine.bytes, transfer, prefetch_to_read);
  const PairHead& head = channel.head(mine.heads);
  if (head.number.load(std::memory_order_acquire) != mine.heads + 1) return false;
  if (head.bytes != transfer.bytes) {
    state_.fail(Status::invalid_usage("rank " + std::to_string(transfer.peer) + " sent " +
                                      std::to_string(head.bytes) + " bytes where rank " +
                                      std::to_string(state_.options().rank) + " receives " +
                                      std::to_string(transfer.bytes)));
    return false;
  }
  active.begun = true;
  if (is_short(transfer)) {
    if (transfer.bytes > 0) std::memcpy(transfer.data, head.payload, transfer.bytes);
    active.done = true;
  } else {
    mine.others_bytes = mine.bytes + PairChannel::first_piece(transfer.bytes);
  }
  channel.read.store(++mine.heads, std::memory_order_release);
  return true;
}

void PairExecutor::claim(const Transfer& transfer) const {
  const PairDirection& mine = directions_[place_of(transfer)];
  if (!transfer.is_send || mine.channel == nullptr) return;
  const PairChannel channel(mine.channel);
  prefetch_to_write(&channel.head(mine.heads));
  for_prompt_lines(channel, mine.bytes, transfer, prefetch_to_write);
}

// The line of the next message, which will probably be as short, comes here while this rank waits.
// By a store: a line that is only prefetched does not stay
// (docs/decisions/memory_of_a_host.md#0029).
void PairExecutor::take_next_head(const Active& active) const {
  const PairDirection& mine = *active.direction;
  const bool is_mine = mine.heads - mine.others_heads < PairChannel::kHeads;
  if (!active.transfer.is_send || !is_short(active.transfer) || mine.channel == nullptr) return;
  if (is_mine) PairChannel(mine.channel).head(mine.heads).bytes = 0;
}

// Calls move(user, slot, bytes, at) for what lies together of the `bytes` at `at` in the channel,
// without the padding.
template <class Move>
void PairExecutor::in_ring(const Active& active, const PairChannel& channel, uint64_t at,
                           uint64_t bytes, Move move) {
  const uint64_t rest = std::min(bytes, active.transfer.bytes - active.moved);
  for (uint64_t done = 0, now = 0; done < rest; done += now) {
    const uint64_t together = PairChannel::kRingBytes - (at + done) % PairChannel::kRingBytes;
    now = std::min(rest - done, together);
    move(active.transfer.data + active.moved + done, channel.at(at + done), now, at + done);
  }
}

void PairExecutor::write_piece(const Active& active, const PairChannel& channel, uint64_t at,
                               uint64_t bytes) {
  const auto write = [&](const std::byte* user, std::byte* slot, uint64_t now, uint64_t place) {
    writer_(now, true, {channel.mark, place}, [&](bool streaming) {
      if (streaming) return types::copy_streaming(slot, user, now);
      std::memcpy(slot, user, now);
    });
  };
  in_ring(active, channel, at, bytes, write);
}

void PairExecutor::read_piece(const Active& active, const PairChannel& channel, uint64_t at,
                              uint64_t bytes) {
  const auto read = [&](std::byte* user, const std::byte* slot, uint64_t now, uint64_t place) {
    const auto copy = [&] { std::memcpy(user, slot, now); };
    if (now < kLeastStagingBytes) return copy();  // without a look at the mark's line
    const StagingMark mark(channel.mark.load(std::memory_order_relaxed));
    reader_(now, mark, place, now, copy);
  };
  in_ring(active, channel, at, bytes, read);
}

}  // namespace tutti::exec
