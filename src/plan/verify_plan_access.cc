// Memory: where operands lie, what is read and written there, and messages by stream.
#include <algorithm>

#include "src/plan/shared_places.h"
#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {

namespace {

constexpr uint32_t kFixed = register_of(Base::kFixed);

bool overlap(Range a, Range b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

// In place, the smaller buffer is the rank's own part of the larger one.
Machine::Place Machine::user_place(uint32_t rank, bool output, uint64_t call) const {
  const PlanSet& set = set_of(call);
  const Plan& plan = set.plans[rank];
  const bool in_place = set.in_place[rank];
  const auto space = output ? schedule::Space::kOutput : schedule::Space::kInput;
  const bool part = in_place && schedule::traits_of(set.shape.collective).nests(space);
  const uint64_t first = part ? share_of(set, rank, !output, rank).offset * plan.element_bytes : 0;
  const uint64_t bytes = elements_of(set, rank, output) * plan.element_bytes;
  const uint32_t kind = output || in_place ? kOutputs : kInputs;
  return {memory_of(rank, kind), {first, first + bytes}};
}

// The slice's piece of an operand of `length` elements; nothing, and a refusal, if it lies outside
// of what the operand may name.
std::optional<Machine::Place> Machine::place(const Context& at, const Operand& operand,
                                             uint64_t length) {
  if (operand.encoding != 0) return place_encoded(at, operand, length);
  const Plan& plan = plan_of(at.rank);
  const uint32_t lane = at.at->lane;
  const uint64_t slice = at.at->slice;
  const schedule::Extent piece = piece_of(plan, lane, slice, length);
  const uint64_t shift = operand.shift == Shift::kPiece ? piece.offset * plan.element_bytes : 0;
  const uint64_t first = operand.offset + shift;
  const Range range{first, first + piece.length * plan.element_bytes};
  if (operand.base >= kFixed) return place_near(at, operand, range);

  const bool scratch = operand.base == register_of(Base::kScratch);
  const bool landing = operand.base == register_of(Base::kLanding);
  if (scratch || landing) {
    const bool inside = range.end <= (scratch ? plan.scratch_bytes : plan.landing_bytes);
    if (!inside || operand.shift != (scratch ? Shift::kScratch : Shift::kNone)) {
      refuse_at(at, "names scratch or landing memory it does not have");
      return {};
    }
    const uint64_t moved =
        scratch ? scratch_shift(plan, lane, slice, length) : landing_shift(plan, lane);
    return Place{memory_of(at.rank, scratch ? kScratches : kLandings),
                 {range.begin + moved, range.end + moved}};
  }
  return place_user(at, at.rank, operand, range);
}

std::optional<Machine::Place> Machine::place_user(const Context& at, uint32_t owner,
                                                  const Operand& operand, Range range) {
  const bool output = owner == at.rank && operand.base < kFixed
                          ? operand.base == register_of(Base::kOutput)
                          : peer_base_of(operand.base) == PeerBase::kOutput;
  const Place buffer = user_place(owner, output, ranks_[at.rank].call);
  const bool slides = operand.shift == Shift::kPiece || operand.shift == Shift::kNone;
  if (!slides || buffer.range.begin + range.end > buffer.range.end) {
    refuse_at(at, std::string("names bytes ") + std::to_string(range.begin) + " to " +
                      std::to_string(range.end) + " of the " + (output ? "output" : "input") +
                      " of rank " + std::to_string(owner) + ", which has " +
                      std::to_string(buffer.range.size()));
    return {};
  }
  const uint64_t first = buffer.range.begin;
  return Place{buffer.memory, {first + range.begin, first + range.end}};
}

std::optional<Machine::Place> Machine::place_near(const Context& at, const Operand& operand,
                                                  Range range) {
  const uint32_t owner = rank_of(operand.base);
  const Rank& state = ranks_[at.rank];
  const Frame& frame = at.at->frame;
  const LanePlan& plan = plan_of(at.rank).lanes[at.at->lane];
  switch (peer_base_of(operand.base)) {
    case PeerBase::kSlot:
      if (operand.shift != Shift::kFrame || range.end > plan.frame_bytes) break;
      return Place{memory_of(owner, kSlots + at.at->lane),
                   {frame.frame + range.begin, frame.frame + range.end}};
    case PeerBase::kCell: {
      const uint64_t stride = plan.tiny ? kTinyStride : kCellStride;
      const uint64_t inside = range.begin % stride;
      const uint64_t end = inside + range.size();
      const bool among_flags = !plan.tiny && inside < kTinyEnd && end > kTinyBegin;
      const bool payload = inside >= sizeof(uint64_t) && end <= stride && !among_flags;
      if (operand.shift != Shift::kCell || !payload || range.end > plan.cells * stride) break;
      return Place{memory_of(owner, kCells), {frame.cell + range.begin, frame.cell + range.end}};
    }
    case PeerBase::kInput:
    case PeerBase::kOutput:
      // Without a prologue all knew them before the call; counters say when they may be read.
      if (owner != at.rank &&
          (plan_of(at.rank).prologue.empty() || state.entered[owner] == state.call + 1)) {
        return place_user(at, owner, operand, range);
      }
      refuse_at(at, "touches the buffers of rank " + std::to_string(owner) +
                        " without having learned their addresses in this call");
      return {};
    case PeerBase::kCount:
      break;
  }
  refuse_at(at, "names bytes " + std::to_string(range.begin) + " to " + std::to_string(range.end) +
                    " of rank " + std::to_string(owner) + "'s frame, outside of it");
  return {};
}

// Slots and cells are written by their owner only, but for a place that all ranks share.
bool Machine::may_write(const Context& at, const Operand& target) {
  if (target.base < kFixed || rank_of(target.base) == at.rank) return true;
  const PeerBase base = peer_base_of(target.base);
  if (base == PeerBase::kInput || base == PeerBase::kOutput) return true;
  const auto ranks = static_cast<uint32_t>(ranks_.size());
  if (shared_place_of(plan_of(at.rank), *at.op, ranks)) return true;
  refuse_at(at, "writes to what rank " + std::to_string(rank_of(target.base)) + " publishes");
  return false;
}

bool Machine::read(const Place& place, uint32_t thread, std::vector<Part>& parts) {
  const auto conflict = memories_[place.memory].read(place.range, actor(thread), parts);
  if (conflict) refuse_race(place, thread, *conflict, false);
  return !conflict;
}

bool Machine::write(const Place& place, uint32_t thread, std::span<const Part> parts) {
  const auto conflict = memories_[place.memory].write(place.range, actor(thread), parts);
  if (conflict) refuse_race(place, thread, *conflict, true);
  return !conflict;
}

void Machine::move(const Context& at) {
  const Op& op = *at.op;
  const Plan& plan = plan_of(at.rank);
  if (piece_of(plan, at.at->lane, at.at->slice, op.length).length == 0) return;
  const std::span operands(plan.operands.data() + op.operands,
                           size_t{op.target_count} + op.source_count);
  std::vector<Place> places;
  for (const Operand& operand : operands) {
    const std::optional<Place> found = place(at, operand, op.length);
    if (!found) return;
    const bool target = places.size() < op.target_count;
    if (target && !may_write(at, operand)) return;
    const bool torn = std::any_of(places.begin(), places.end(), [&](const Place& other) {
      const bool counts = target || &other < places.data() + op.target_count;
      return counts && other.memory == found->memory && other.range != found->range &&
             overlap(other.range, found->range);
    });
    if (torn) return refuse_at(at, "has operands that overlap in part");
    places.push_back(*found);
  }
  begin(at.thread, event_of(at));
  sources_.resize(std::max<size_t>(sources_.size(), op.source_count));
  for (size_t i = 0; i < op.source_count; ++i) {
    if (!read(places[op.target_count + i], at.thread, sources_[i])) return;
    if (!take(at, operands[op.target_count + i], sources_[i])) return;
  }
  fold(plan, op);
  store(at, std::span(places).first(op.target_count));
}

// folded_ <- the fold of sources_, cut wherever one of them is.
void Machine::fold(const Plan& plan, const Op& op) {
  folded_.clear();
  std::vector<size_t> at(op.source_count, 0);
  const uint64_t end = sources_[0].back().end;
  for (uint64_t begin = 0; begin < end;) {
    uint64_t next = end;
    operands_.clear();
    for (size_t i = 0; i < op.source_count; ++i) {
      while (sources_[i][at[i]].end <= begin) ++at[i];
      const Part& part = sources_[i][at[i]];
      next = std::min(next, part.end);
      const bool scaled = op.mask != kNoMask && plan.scale != 1.0 &&
                          (plan.masks[op.mask + i / 64] >> (i % 64) & 1) != 0;
      operands_.push_back(scaled ? values_.scale(part.value) : part.value);
    }
    const ValueId value = values_.fold(operands_);
    folded_.push_back({begin, next, op.divide ? values_.divide(value) : value});
    begin = next;
  }
}

// The transfer is a thread of its own: it begins with what the poster knows, and reads or writes
// its operands at any time until it is awaited.
void Machine::post(const Context& at, bool sends) {
  const Op& op = *at.op;
  const Plan& plan = plan_of(at.rank);
  const uint32_t number = at.at->lane;
  Lane& lane = ranks_[at.rank].lanes[number];
  PostedTransfer& posted = (sends ? lane.sent : lane.received)[op.value];
  posted.progress = at.at->progress;
  posted.done = posted.awaited = false;
  posted.places.clear();
  posted.wire_bytes = 0;
  for (size_t i = 0; i < size_t{op.source_count} + op.target_count; ++i) {
    const Operand& operand = plan.operands[op.operands + i];
    const auto found = place(at, operand, plan.lengths[op.lengths + i]);
    if (!found) return;
    posted.places.push_back(*found);
    const uint64_t elements = found->range.size() / plan.element_bytes;
    posted.wire_bytes += bytes_of(plan, operand.encoding, elements);
  }
  threads_[posted.thread].clock.join(threads_[at.thread].clock);
  begin(posted.thread, event_of(at));
  TransferChannel& channel =
      sends ? channels_[{at.rank, op.peer, number}] : channels_[{op.peer, at.rank, number}];
  (sends ? channel.sends : channel.receives).push_back(&posted);
  if (channel.sends.empty() || channel.receives.empty()) return;
  transfer(*channel.sends.front(), *channel.receives.front());
  channel.sends.pop_front();
  channel.receives.pop_front();
}

void Machine::transfer(PostedTransfer& send, PostedTransfer& receive) {
  threads_[receive.thread].clock.join(threads_[send.thread].clock);
  std::vector<Part> message;  // counted from the beginning of the message
  uint64_t sent = 0, received = 0;
  for (const Place& source : send.places) {
    if (!read(source, send.thread, parts_)) return;
    for (const Part& part : parts_) {
      const ValueId value = values_.shift(part.value, -static_cast<int64_t>(sent));
      message.push_back({sent + part.begin, sent + part.end, value});
    }
    sent += source.range.size();
  }
  for (const Place& target : receive.places) {
    const uint64_t end = received + target.range.size();
    parts_.clear();
    for (const Part& part : message) {
      const uint64_t low = std::max(part.begin, received), high = std::min(part.end, end);
      if (low >= high) continue;
      const ValueId value = values_.shift(part.value, static_cast<int64_t>(received));
      parts_.push_back({low - received, high - received, values_.by_exact_way(value)});
    }
    received = end;
    if (received <= sent && !write(target, receive.thread, parts_)) return;
  }
  if (received != sent || receive.wire_bytes != send.wire_bytes) {
    refuse("a message of " + std::to_string(send.wire_bytes) + " bytes, sent by " +
           describe(actor(send.thread).now) + ", meets a receive of " +
           std::to_string(receive.wire_bytes) + " bytes, posted by " +
           describe(actor(receive.thread).now));
  }
  send.done = receive.done = true;
}

// A send counts as out when it has been received: no transport need buffer it. That tells the
// sender only that its source is free.
bool Machine::await_transfer(const Context& at, bool sends) {
  const Op& op = *at.op;
  const uint32_t poster = sends ? sender_of(plan_of(at.rank), op, at.at->lane) : at.at->lane;
  Lane& lane = ranks_[at.rank].lanes[poster];
  PostedTransfer& posted = (sends ? lane.sent : lane.received)[op.value];
  const Position& where = position_of(at.rank, poster);
  if (where.slice < at.at->slice || posted.progress != where.progress) {
    refuse_at(at, "awaits what has not been posted in this slice");
    return true;
  }
  if (!posted.done) return false;
  threads_[at.thread].clock.join(threads_[posted.thread].clock);
  posted.awaited = posted.awaited || poster == at.at->lane;
  return true;
}

// Checks the value that every element of the output must hold when the call returns.
void Machine::check_output(uint32_t rank) {
  const uint32_t call = ranks_[rank].call;
  const PlanSet& set = set_of(call);
  const Plan& plan = plan_of(rank);
  const Place output = user_place(rank, true, call);
  const schedule::Traits& traits = schedule::traits_of(set.shape.collective);
  const auto term = [&](uint32_t source) {
    const uint32_t share = traits.input.parts ? rank : 0;
    const uint64_t delta = share_of(set, source, false, share).offset * plan.element_bytes;
    return Term{static_cast<int64_t>(delta), static_cast<uint16_t>(source),
                static_cast<uint16_t>(call), static_cast<uint8_t>(plan.scale != 1.0)};
  };
  const uint64_t shares = schedule::output_elements(set.shape, static_cast<int>(rank), 1);
  for (uint32_t block = 0; block < shares; ++block) {
    Value required;
    if (traits.reduces) {
      for (uint32_t r = 0; r < ranks_.size(); ++r) required.terms.push_back(term(r));
      std::sort(required.terms.begin(), required.terms.end());
      required.divided = plan.divisor != 1 ? 1 : 0;
    } else {
      const bool one_source = traits.input.holder == schedule::Holder::kRoot;
      required.terms = {term(one_source ? static_cast<uint32_t>(set.shape.root) : block)};
    }
    const schedule::Extent share = share_of(set, rank, true, block);
    const uint64_t begin = output.range.begin + share.offset * plan.element_bytes;
    const Range range{begin, begin + share.length * plan.element_bytes};
    check_block(rank, {output.memory, range}, values_.of(std::move(required)));
    // Ranks that have the same blocks have the same bits.
    const bool is_shared =
        traits.output.holder == schedule::Holder::kEverybody && !traits.input.parts;
    if (ok() && is_shared) check_roundings(rank, block, parts_);
  }
}

void Machine::check_block(uint32_t rank, const Place& block, ValueId required) {
  if (!read(block, thread_of(rank, 0), parts_)) return;
  for (const Part& part : parts_) {
    if (values_.code_of(part.value) == 0 && values_.exact(part.value) == required) continue;
    return refuse("rank " + std::to_string(rank) + " returns from call " +
                  std::to_string(ranks_[rank].call) + " with " +
                  values_.describe(part.value, part.begin) + " at byte " +
                  std::to_string(block.range.begin + part.begin) +
                  " of its output; required: " + values_.describe(required, part.begin));
  }
}

}  // namespace tutti::plan::verifier
