#include "src/plan/touch.h"

#include <algorithm>

namespace tutti::plan {

using schedule::Block;
using schedule::Fraction;
using schedule::Partition;
using schedule::Space;

namespace {

using Wide = unsigned __int128;

// A position within the larger of the two buffers, which holds both.
struct Edge {
  uint64_t num;
  uint64_t den;
};

Edge place(const schedule::Shape& shape, int rank, Space space, Fraction x) {
  const auto ranks = static_cast<uint64_t>(shape.ranks);
  if (!schedule::traits_of(shape.collective).nests(space)) return {x.num, x.den};
  return {static_cast<uint64_t>(rank) * x.den + x.num, x.den * ranks};
}

bool less(Edge a, Edge b) { return Wide{a.num} * b.den < Wide{b.num} * a.den; }

}  // namespace

std::pair<uint32_t, uint32_t> aliases(const schedule::Shape& shape, int rank, Block block) {
  const bool is_input = block.space() == Space::kInput;
  const Partition& mine = is_input ? shape.input : shape.output;
  const Partition& theirs = is_input ? shape.output : shape.input;
  const Space other = is_input ? Space::kOutput : Space::kInput;
  const Edge low = place(shape, rank, block.space(), mine.bound(block.index()));
  const Edge high = place(shape, rank, block.space(), mine.bound(block.index() + 1));
  const auto bound = [&](uint32_t i) { return place(shape, rank, other, theirs.bound(i)); };
  // The first block that ends behind `low`, and the first that begins at or behind `high`.
  uint32_t first = 0, last = theirs.blocks;
  for (uint32_t end = theirs.blocks; first < end;) {
    const uint32_t middle = (first + end) / 2;
    if (less(low, bound(middle + 1)))
      end = middle;
    else
      first = middle + 1;
  }
  for (uint32_t begin = first; begin < last;) {
    const uint32_t middle = (begin + last) / 2;
    if (less(bound(middle), high))
      begin = middle + 1;
    else
      last = middle;
  }
  return {first, std::max(first, last)};
}

Touches::Touches(const schedule::Shape& shape, const schedule::Schedule& schedule, bool in_place)
    : shape_(shape),
      rank_(schedule.rank),
      in_place_(in_place && schedule::has_both(shape, schedule.rank)),
      order_(schedule) {
  facts_[0].resize(shape.input.blocks);
  facts_[1].resize(shape.output.blocks);
  facts_[2].resize(schedule.scratch.size());
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const schedule::Step& step = schedule.steps[i];
    const bool is_move = step.kind == schedule::StepKind::kMove;
    if (is_move && copies_to_itself(schedule, step)) continue;
    if (is_move) {
      for (schedule::Source source : schedule.sources_of(step)) {
        if (source.is_message()) continue;
        for (Block block : schedule.blocks_of(step, source)) touch(block, i, false);
      }
    }
    for (Block block : schedule.blocks_of(step)) touch(block, i, is_move);
  }
}

// In place, copying a block to where it lies already touches nothing.
bool Touches::copies_to_itself(const schedule::Schedule& schedule,
                               const schedule::Step& step) const {
  if (!in_place_ || step.operand_count != 1 || step.block_count != 1) return false;
  const schedule::Source source = schedule.sources_of(step)[0];
  if (source.is_message()) return false;
  const Block from = schedule.blocks_of(step, source)[0];
  const Block to = schedule.blocks_of(step)[0];
  if (from.space() == Space::kScratch || to.space() == Space::kScratch) return false;
  const auto [first, last] = aliases(shape_, rank_, from);
  if (from.space() == to.space() || last != first + 1 || to.index() != first) return false;
  const auto [back, back_last] = aliases(shape_, rank_, to);
  return back_last == back + 1 && back == from.index();
}

void Touches::touch(Block block, uint32_t step, bool write) {
  touch_one(block, step, write);
  if (!in_place_ || block.space() == Space::kScratch) return;
  const Space other = block.space() == Space::kInput ? Space::kOutput : Space::kInput;
  const auto [first, last] = aliases(shape_, rank_, block);
  for (uint32_t i = first; i < last; ++i) touch_one(Block::of(other, i), step, write);
}

void Touches::touch_one(Block block, uint32_t step, bool write) {
  BlockTouches& facts = facts_[static_cast<size_t>(block.space())][block.index()];
  const bool is_new = facts.touches.empty() || facts.touches.back() != step;
  if (is_new && (!order_.total() || facts.touches.size() < 2)) facts.touches.push_back(step);
  if (write && (facts.writes.empty() || facts.writes.back() != step)) facts.writes.push_back(step);
}

}  // namespace tutti::plan
