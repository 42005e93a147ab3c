// The part of Emitter that encodes: where the encoded bytes of a value come from, and from where
// its elements are read (rounding.h, encoded_places.h).
#include <utility>

#include "src/plan/emit.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Source;
using schedule::Space;
using schedule::Step;

/// Whether messages between this rank and the peer are encoded.
bool Emitter::encodes(int peer) const {
  if (!match_.rounding.rounds()) return false;
  return match_.wire.levels[match_.group->common_level(match_.schedule.rank, peer)] != 0;
}

/// Of block i of the source with this number.
uint8_t Emitter::encoding_of_source(uint32_t index, uint32_t i, uint32_t source) const {
  const uint32_t begin = match_.rounding.sources_begin[index];
  return match_.rounding.sources[begin + i * match_.schedule.steps[index].operand_count + source];
}

/// The encoded bytes of what the block holds. Where this rank has none, this lane makes them.
Operand Emitter::encoded(const Step& step, Block block) {
  if (const Operand* known = encoded_.find(step.lane, block); known != nullptr) return *known;
  const Operand place = encoded_.add(encoded_.encoding_of(block));
  encoded_.hold_in(step.lane, block, place);
  const Operand operands[] = {place, local(block)};
  emit_copy(step, operands, length_of(block));
  return place;
}

/// A message has come straight into the targets of the step, as elements.
void Emitter::note_landing(uint32_t index) {
  if (!match_.rounding.rounds()) return;
  const auto targets = match_.schedule.blocks_of(match_.schedule.steps[index]);
  for (uint32_t i = 0; i < targets.size(); ++i) {
    const uint32_t number = match_.rounding.targets_begin[index] + i;
    encoded_.write(targets[i], match_.rounding.targets[number]);
  }
}

/// From where a move reads what the block holds. Inputs are not ours to round: of these the decoded
/// value is that of the encoded bytes.
Operand Emitter::readable(const Step& step, Block block) {
  const bool is_exact = block.space() == Space::kInput && encoded_.encoding_of(block) != 0;
  return is_exact ? encoded(step, block) : local(block);
}

/// Elements as a message that is not encoded has them: those of inputs are decoded into a scratch
/// block beside the schedule's.
Operand Emitter::rounded(const Step& step, Block block) {
  const Operand source = readable(step, block);
  if (source.encoding == 0) return source;
  const auto number = static_cast<uint32_t>(match_.schedule.scratch.size() + rounded_.size());
  const auto [known, is_new] = rounded_.try_emplace({block.word, step.lane});
  if (!is_new) return known->second;
  known->second = local(Block::of(Space::kScratch, number));
  const Operand operands[] = {known->second, source};
  emit_copy(step, operands, length_of(block));
  return known->second;
}

/// `operands`: the target, and the sources. A sum is encoded at once if it is rounded. A value that
/// is only passed on keeps its encoded bytes, and needs no elements where nobody reads them.
void Emitter::emit_rounding_fold(uint32_t index, uint32_t i, std::vector<Operand> operands) {
  const Step& step = match_.schedule.steps[index];
  const Block target = match_.schedule.blocks_of(step)[i];
  const uint32_t number = match_.rounding.targets_begin[index] + i;
  const uint8_t encoding = match_.rounding.targets[number];
  const bool reads = match_.rounding.reads[number];
  Operand place;
  if (step.operand_count > 1 && encoding != 0) {
    place = encoded_.add(encoding);
    if (reads) {
      operands.insert(operands.begin(), place);
    } else {
      operands[0] = place;
    }
  } else if (step.operand_count == 1) {
    const Source source = match_.schedule.sources_of(step)[0];
    if (operands[1].encoding != 0) {
      place = operands[1];
    } else if (!source.is_message()) {
      const Operand* known = encoded_.find(step.lane, match_.schedule.blocks_of(step, source)[i]);
      if (known != nullptr) place = *known;
    }
  }
  encoded_.write(target, encoding);
  if (place.encoding != 0) encoded_.hold(target, place);
  const bool is_kept = step.operand_count == 1 && place.encoding != 0 && !reads;
  if (!is_kept) emit_fold(index, i, operands);
}

}  // namespace tutti::plan
