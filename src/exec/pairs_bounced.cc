// The part of PairExecutor that deals with transfers on device memory: their pieces lie in the
// slots of a bounce buffer, which streams fill and empty (bounce_pairs.h). The thread touches no
// byte of them.
#include <algorithm>
#include <utility>

#include "src/exec/pairs.h"

namespace tutti::exec {

void PairExecutor::start(const BouncedTransfers& bounced) {
  crossing_ = bounced.crossing.lock();
  if (crossing_ == nullptr) {
    active_.clear();
    open_.clear();
    return state_.fail(Status::internal_error("transfers on a device lost their bounce buffer"));
  }
  bounce_ = bounced.pairs;
  find_late_ = bounced.find_late;
  crossing_->begin(state_.left());
  (void)line_up(bounced.transfers);
  bounced_.assign(active_.size(), {});
  std::vector<uint64_t> before(bounce_->directions().size(), 0);
  for (size_t i = 0; i < active_.size(); ++i) {
    const BounceDirection& direction = bounce_->directions()[bounce_->direction_of(i)];
    const uint64_t bytes = active_[i].transfer.bytes;
    const uint64_t pieces =
        bytes == 0 ? 0 : (bytes + direction.slot_bytes - 1) / direction.slot_bytes;
    uint64_t& of_direction = before[bounce_->direction_of(i)];
    bounced_[i].before = of_direction;
    bounced_[i].pieces = std::max<uint64_t>(pieces, 1);
    of_direction += pieces;
  }
  tell_lines();
}

void PairExecutor::end_bounced() {
  if (bounce_ == nullptr) return;
  if (state_.ok()) crossing_->end();
  bounce_.reset();
  crossing_.reset();
}

// Both ends of a collective have its signature, those of a send none.
uint32_t PairExecutor::bounced_signature(const Transfer& transfer,
                                         const BounceDirection& direction) const {
  const uint32_t of_call = state_.call().signature == 0 ? 1 : state_.call().far_signature;
  if (transfer.bytes <= direction.slot_bytes) return of_call;
  return of_call ^ static_cast<uint32_t>(transfer.bytes << 1);
}

// While the streams have not come, a rank of this host may be why: messages should name it.
bool PairExecutor::has_come(const BounceDirectionWords& words, uint64_t pieces) {
  constexpr uint32_t kLooksANaming = 256;
  if (words.by_stream.value.load(std::memory_order_acquire) >= pieces) return true;
  if (find_late_ && ++looks_ % kLooksANaming == 0) {
    if (const std::optional<uint32_t> late = find_late_()) state_.expect(*late);
  }
  return false;
}

// A piece to be sent must be in its slot, and what lay in the slot of one to come out of it.
bool PairExecutor::give_piece(const Active& active, BouncedPieces& state,
                              const BounceDirection& direction) {
  const Transfer& transfer = active.transfer;
  const uint64_t number = state.before + state.given;
  const uint64_t done = state.given * direction.slot_bytes;
  const uint64_t bytes = std::min(transfer.bytes - done, direction.slot_bytes);
  std::byte* piece = nullptr;
  if (bytes > 0) {
    std::byte* const memory = crossing_->memory();
    const auto index = static_cast<uint32_t>(&direction - bounce_->directions().data());
    const uint64_t free = transfer.is_send ? 0 : direction.slots;
    const uint64_t needed = number + 1 > free ? number + 1 - free : 0;
    if (!has_come(bounce_->words(memory, index), needed)) return false;
    piece = memory + direction.place + number % direction.slots * direction.slot_bytes;
  }
  transport::Stream& stream = *state_.peers()[transfer.peer].stream;
  const transport::ChannelId channel = pair_channel();
  const uint32_t signature = bounced_signature(transfer, direction);
  const transport::ConstBuffer source{piece, bytes};
  const transport::Buffer target{piece, bytes};
  trace::Recorder* const recorder = state_.options().recorder;
  const bool timed = recorder != nullptr && recorder->in_call();
  state.timed[state.given % BouncePairs::kSlots] =
      timed ? recorder->begin_message({transfer.peer, 0, transfer.is_send, state.given, bytes}) : 0;
  state.tickets[state.given % BouncePairs::kSlots] =
      transfer.is_send ? stream.send(channel, signature, {&source, 1})
                       : stream.receive(channel, signature, {&target, 1});
  ++state.given;
  return true;
}

bool PairExecutor::step_bounced(Active& active) {
  const auto at = static_cast<size_t>(&active - active_.data());
  const uint32_t number = bounce_->direction_of(at);
  const BounceDirection& direction = bounce_->directions()[number];
  BouncedPieces& state = bounced_[at];
  const transport::Stream& stream = *state_.peers()[active.transfer.peer].stream;
  if (state_.call().signature != 0 && !active.begun) state_.announce_to(active.transfer.peer);
  active.begun = true;
  bool moved = false;
  while (state.over < state.given) {
    const auto ticket = state.tickets[state.over % BouncePairs::kSlots];
    if (!(active.transfer.is_send ? stream.sent(ticket) : stream.received(ticket))) break;
    if (const uint64_t timed = state.timed[state.over % BouncePairs::kSlots]; timed != 0) {
      state_.options().recorder->end_message(timed);
    }
    ++state.over;
    moved = true;
    active.moved = std::min(state.over * direction.slot_bytes, active.transfer.bytes);
    if (active.transfer.bytes > 0) {
      bounce_->words(crossing_->memory(), number)
          .by_host.value.store(state.before + state.over, std::memory_order_release);
    }
  }
  const uint64_t room = std::max<uint64_t>(direction.slots, 1);
  while (state.given < state.pieces && state.given - state.over < room) {
    if (!give_piece(active, state, direction)) break;
    moved = true;
  }
  active.done = state.over == state.pieces;
  return moved;
}

}  // namespace tutti::exec
