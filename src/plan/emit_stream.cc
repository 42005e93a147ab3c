// The part of Emitter that deals with memory: operands, and messages to other hosts.
//
// Streams: all receives of a slice are posted when the lane begins the slice. Every send of the
// slice can therefore complete without anything further happening in the receiver's lane, so
// waiting for a send (before its source is overwritten, and at the end of the slice) cannot
// deadlock.
#include <algorithm>

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

Operand Emitter::arrived(const Message& message, uint16_t lane, uint32_t i,
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
    for (Source source : mine.sources_of(step)) {
      if (!source.is_message() || match_.group->near(mine.rank, source.peer())) continue;
      post_receive(index, source.peer(), step.operand_count == 1);
    }
  }
}

void Emitter::post_receive(uint32_t index, int peer, bool alone) {
  const Step& step = match_.schedule.steps[index];
  LanePlan& lane = plan_.lanes[step.lane];
  const bool straight = alone && dead_before(index);
  Posted posted{lane.receives++, !straight, landing_bytes_};
  std::vector<Operand> operands;
  std::vector<uint64_t> lengths;
  const auto targets = match_.schedule.blocks_of(step);
  for (uint32_t i = 0; i < targets.size(); ++i) {
    if (straight) {
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
  posted_.push_back(posted);
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
  std::vector<Operand> operands;
  std::vector<uint64_t> lengths;
  for (Block block : match_.schedule.blocks_of(step)) {
    operands.push_back(local(block));
    lengths.push_back(length_of(block));
  }
  for (uint32_t i = 0; i < matched.far_count; ++i) {
    Op op;
    op.code = OpCode::kStreamSend;
    op.peer = static_cast<uint32_t>(match_.far_peers[matched.far + i]);
    op.value = lane.sends++;
    op.source_count = static_cast<uint16_t>(operands.size());
    op.lengths = add_lengths(lengths);
    unsent_.push_back({step.lane, op.value, index});
    emit(step.lane, op, operands);
  }
}

// Before `blocks` are written: sends that still read them must be out.
void Emitter::protect(const Step& step, std::span<const Block> blocks) {
  if (unsent_.empty()) return;
  const auto overlaps = [&](Block a, Block b) {
    // Scratch blocks never overlap; their places hold one slice, not the whole length.
    if (a.space() == Space::kScratch || b.space() == Space::kScratch) return a == b;
    const Operand x = local(a), y = local(b);
    const uint64_t x_bytes = length_of(a) * geometry_.element_bytes;
    const uint64_t y_bytes = length_of(b) * geometry_.element_bytes;
    return x.base == y.base && x.offset < y.offset + y_bytes && y.offset < x.offset + x_bytes;
  };
  std::erase_if(unsent_, [&](const Unsent& unsent) {
    const auto sources = match_.schedule.blocks_of(match_.schedule.steps[unsent.step]);
    const bool hit = std::any_of(blocks.begin(), blocks.end(), [&](Block target) {
      return std::any_of(sources.begin(), sources.end(),
                         [&](Block source) { return overlaps(target, source); });
    });
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
