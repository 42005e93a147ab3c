#include "src/schedule/builder.h"

#include <algorithm>
#include <utility>

namespace tutti::schedule {

Block Builder::scratch(Block like) {
  schedule_.scratch.push_back(like);
  return Block::of(Space::kScratch, static_cast<uint32_t>(schedule_.scratch.size() - 1));
}

uint32_t Builder::append(std::span<const Block> blocks) {
  auto& words = schedule_.words;
  const auto offset = static_cast<uint32_t>(words.size());
  for (Block block : blocks) words.push_back(block.word);
  return offset;
}

StepIndex Builder::send(std::span<const Block> blocks, std::span<const int> peers) {
  Step step;
  step.kind = StepKind::kSend;
  step.lane = lane_;
  step.block_count = static_cast<uint32_t>(blocks.size());
  step.blocks = append(blocks);
  step.operand_count = static_cast<uint32_t>(peers.size());
  step.operands = static_cast<uint32_t>(schedule_.words.size());
  for (int peer : peers) schedule_.words.push_back(static_cast<uint32_t>(peer));
  schedule_.steps.push_back(step);
  return static_cast<StepIndex>(schedule_.steps.size() - 1);
}

StepIndex Builder::move(std::span<const Block> target, std::span<const MoveSource> sources,
                        Fold fold) {
  Step step;
  step.kind = StepKind::kMove;
  step.fold = fold;
  step.lane = lane_;
  step.block_count = static_cast<uint32_t>(target.size());
  step.blocks = append(target);
  const auto lists = static_cast<uint32_t>(schedule_.words.size());
  for (const MoveSource& source : sources) append(source.blocks);
  step.operand_count = static_cast<uint32_t>(sources.size());
  step.operands = static_cast<uint32_t>(schedule_.words.size());
  uint32_t list = lists;
  for (const MoveSource& source : sources) {
    const bool local = source.peer < 0;
    const Source word = local ? Source::local(list) : Source::message(source.peer);
    if (local) list += step.block_count;
    schedule_.words.push_back(word.word);
  }
  schedule_.steps.push_back(step);
  return static_cast<StepIndex>(schedule_.steps.size() - 1);
}

StepIndex Builder::copy(Block target, Block source) {
  const MoveSource operand = MoveSource::local(source);
  return move(target, {&operand, 1});
}

StepIndex Builder::receive(Block target, int peer) {
  const MoveSource operand = MoveSource::message(peer);
  return move(target, {&operand, 1});
}

StepIndex Builder::receive(std::span<const Block> target, int peer) {
  const MoveSource operand = MoveSource::message(peer);
  return move(target, {&operand, 1});
}

void Builder::after(StepIndex later, StepIndex earlier) {
  Step& step = schedule_.steps[later];
  if (step.after_count == 0) step.afters = static_cast<uint32_t>(schedule_.words.size());
  schedule_.words.push_back(earlier);
  ++step.after_count;
}

Schedule Builder::finish() && {
  uint16_t lanes = 1;
  for (const Step& step : schedule_.steps) {
    lanes = std::max<uint16_t>(lanes, static_cast<uint16_t>(step.lane + 1));
  }
  schedule_.lanes = lanes;
  return std::move(schedule_);
}

}  // namespace tutti::schedule
