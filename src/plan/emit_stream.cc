// The part of Emitter that deals with memory: operands, and messages to other hosts.
//
// Streams: all receives of a slice are posted when the lane begins the slice. Every send of the
// slice can therefore complete without anything further happening in the receiver's lane, so
// waiting for a send (before its source is overwritten, and at the end of the slice) cannot
// deadlock.
#include <algorithm>
#include <tuple>

#include "src/plan/emit.h"
#include "src/plan/touch.h"
#include "src/plan/walk.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Collective;
using schedule::Source;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

// Each of the shorter list is looked for in the longer one. Both are ordered and without overlaps.
bool Emitter::overlap(const std::vector<TouchedBytes>& a, const std::vector<TouchedBytes>& b) {
  const auto& [few, many] = a.size() < b.size() ? std::tie(a, b) : std::tie(b, a);
  return std::any_of(few.begin(), few.end(), [&many = many](const TouchedBytes& place) {
    const auto next = std::upper_bound(
        many.begin(), many.end(), place, [](const TouchedBytes& wanted, const TouchedBytes& other) {
          return std::tie(wanted.base, wanted.begin) < std::tie(other.base, other.end);
        });
    return next != many.end() && next->base == place.base && next->begin < place.end;
  });
}

uint64_t Emitter::length_of(Block block) const { return layout_.length(match_.schedule, block); }

uint64_t Emitter::message_bytes(std::span<const Block> blocks) const {
  uint64_t elements = 0;
  for (Block block : blocks) elements += length_of(block);
  return elements * geometry_.element_bytes;
}

// In place, equal memory gets equal operands: the smaller buffer is addressed within the larger
// one.
Operand Emitter::local(Block block) const {
  if (block.space() == Space::kScratch) {
    return {register_of(Base::kScratch), Shift::kScratch, block.index() * geometry_.stride};
  }
  bool is_input = block.space() == Space::kInput;
  uint64_t elements = layout_.extent(block).offset;
  if (match_.in_place) {
    const schedule::Traits& traits = schedule::traits_of(match_.shape.collective);
    if (traits.nests(block.space())) elements += layout_.part_offset(match_.schedule.rank);
    is_input = traits.nests(Space::kOutput);
  }
  const Base base = is_input ? Base::kInput : Base::kOutput;
  return {register_of(base), user_shift(), elements * geometry_.element_bytes};
}

Operand Emitter::remote(int peer, Block block) const {
  const PeerBase base = block.space() == Space::kInput ? PeerBase::kInput : PeerBase::kOutput;
  return {register_of(base, peer), user_shift(),
          layout_.extent(block).offset * geometry_.element_bytes};
}

Operand Emitter::arrived(const NearMessage& message, uint16_t lane, uint32_t i,
                         uint64_t cell_offset) const {
  switch (message.mechanism) {
    case Mechanism::kPull:
    case Mechanism::kRead:
      return remote(message.source, match_.block(message.blocks, i));
    default:
      break;
  }
  if (!geometry_.in_cells) {
    return {register_of(PeerBase::kSlot, message.source), Shift::kFrame,
            (message.slot + i) * stride_of(lane)};
  }
  return {register_of(PeerBase::kCell, message.source), Shift::kCell,
          uint64_t{message.cell} * kCellStride + cell_offset};
}

void Emitter::post_receives(uint16_t lane) {
  const schedule::Schedule& mine = match_.schedule;
  for (uint32_t index = 0; index < mine.steps.size(); ++index) {
    const Step& step = mine.steps[index];
    if (step.lane != lane || step.kind != StepKind::kMove) continue;
    posted_begin_[index] = static_cast<uint32_t>(posted_.size());
    const auto sources = mine.sources_of(step);
    for (uint32_t s = 0; s < sources.size(); ++s) {
      if (!sources[s].is_message() || match_.group->near(mine.rank, sources[s].peer())) continue;
      post_receive(index, s);
    }
  }
}

void Emitter::post_receive(uint32_t index, uint32_t source) {
  const Step& step = match_.schedule.steps[index];
  const int peer = match_.schedule.sources_of(step)[source].peer();
  const bool alone = step.operand_count == 1;
  LanePlan& lane = plan_.lanes[step.lane];
  const bool is_encoded = encodes(peer);
  const bool straight = alone && !is_encoded && !geometry_.lands && dead_before(index);
  Posted posted{lane.receives++, !straight, landing_bytes_, {}};
  std::vector<Operand> operands;
  std::vector<uint64_t> lengths;
  const auto targets = match_.schedule.blocks_of(step);
  for (uint32_t i = 0; i < targets.size(); ++i) {
    if (is_encoded) {
      operands.push_back(encoded_.add(encoding_of_source(index, i, source)));
    } else if (straight) {
      operands.push_back(local(targets[i]));
    } else {
      operands.push_back({register_of(Base::kLanding), Shift::kNone, landing_bytes_});
      landing_bytes_ += stride_of(step.lane);
    }
    lengths.push_back(length_of(targets[i]));
  }
  Op op;
  op.code = OpCode::kStreamReceive;
  op.peer = static_cast<uint32_t>(peer);
  op.value = posted.ordinal;
  op.target_count = static_cast<uint16_t>(operands.size());
  op.lengths = add_lengths(lengths);
  emit(step.lane, op, operands);
  if (is_encoded) posted.encoded = std::move(operands);
  posted_.push_back(std::move(posted));
}

// Nothing of the rank touches the target before this step, in any lane: bytes may arrive early.
bool Emitter::dead_before(uint32_t index) {
  const schedule::Schedule& mine = match_.schedule;
  if (touches_ == nullptr) {
    touches_ = std::make_unique<Touches>(match_.shape, mine, match_.in_place);
  }
  for (Block block : mine.blocks_of(mine.steps[index])) {
    if (block.space() == Space::kScratch) return false;
    for (const uint32_t touch : touches_->touches(block)) {
      if (touch != index && !touches_->order().before(index, touch)) return false;
    }
  }
  return true;
}

uint32_t Emitter::add_lengths(std::span<const uint64_t> lengths) {
  const auto offset = static_cast<uint32_t>(plan_.lengths.size());
  plan_.lengths.insert(plan_.lengths.end(), lengths.begin(), lengths.end());
  return offset;
}

void Emitter::emit_far(uint32_t index) {
  const Step& step = match_.schedule.steps[index];
  const MatchedStep& matched = match_.steps[index];
  LanePlan& lane = plan_.lanes[step.lane];
  const auto blocks = match_.schedule.blocks_of(step);
  std::vector<uint64_t> lengths;
  for (Block block : blocks) lengths.push_back(length_of(block));
  const std::vector<TouchedBytes> places = places_of(blocks);
  for (uint32_t i = 0; i < matched.far_count; ++i) {
    const int peer = match_.far_peers[matched.far + i];
    const bool is_encoded = encodes(peer);
    std::vector<Operand> operands;
    for (Block block : blocks) operands.push_back(far_operand(step, block, is_encoded));
    Op op;
    op.code = OpCode::kStreamSend;
    op.peer = static_cast<uint32_t>(peer);
    op.value = lane.sends++;
    op.source_count = static_cast<uint16_t>(operands.size());
    op.lengths = add_lengths(lengths);
    // Nothing else of the slice writes where encoded values lie.
    unsent_.push_back({step.lane, op.value, is_encoded ? std::vector<TouchedBytes>() : places});
    emit(step.lane, op, operands);
  }
}

Operand Emitter::far_operand(const Step& step, Block block, bool encodes) {
  return encodes ? encoded(step, block) : rounded(step, block);
}

// In the order of memory, neighbours joined. The places of scratch blocks hold one slice, not the
// whole length, and never overlap: there a block is its number.
std::vector<Emitter::TouchedBytes> Emitter::places_of(std::span<const Block> blocks) const {
  std::vector<TouchedBytes> places;
  for (const Block block : blocks) {
    if (block.space() == Space::kScratch) {
      places.push_back({register_of(Base::kScratch), block.index(), block.index() + uint64_t{1}});
      continue;
    }
    const Operand at = local(block);
    const uint64_t bytes = length_of(block) * geometry_.element_bytes;
    if (bytes > 0) places.push_back({at.base, at.offset, at.offset + bytes});
  }
  std::sort(places.begin(), places.end());
  size_t kept = 0;
  for (const TouchedBytes& place : places) {
    TouchedBytes* last = kept == 0 ? nullptr : &places[kept - 1];
    if (last != nullptr && last->base == place.base && place.begin <= last->end) {
      last->end = std::max(last->end, place.end);
    } else {
      places[kept++] = place;
    }
  }
  places.resize(kept);
  return places;
}

// Before `blocks` are written: sends that still read them must be out.
void Emitter::protect(const Step& step, std::span<const Block> blocks) {
  if (unsent_.empty()) return;
  const std::vector<TouchedBytes> written = places_of(blocks);
  std::erase_if(unsent_, [&](const Unsent& unsent) {
    const bool hit = overlap(written, unsent.places);
    if (hit && parts_of(unsent.lane) != parts_of(step.lane)) {
      emit(step.lane, {.code = OpCode::kAfter, .peer = unsent.lane, .value = kAllOps});
    } else if (hit) {
      emit(step.lane, {.code = OpCode::kStreamSent,
                       .lane = static_cast<uint8_t>(unsent.lane),
                       .value = unsent.ordinal});
    }
    return hit && unsent.lane == step.lane;  // another lane waits at its own end once more
  });
}

}  // namespace tutti::plan
