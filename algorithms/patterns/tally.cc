#include "algorithms/patterns/tally.h"

#include <algorithm>
#include <utility>

#include "src/schedule/level_cost.h"

namespace tutti::algorithms::patterns {

using namespace schedule;

Tally::Tally(const Shape& shape, uint64_t units) : units_(units) {
  const Layout layout(shape, units);
  for (uint32_t i = 0; i < shape.input.blocks; ++i) {
    widths_[0].push_back(layout.extent(input(i)).length);
  }
  for (uint32_t i = 0; i < shape.output.blocks; ++i) {
    widths_[1].push_back(layout.extent(output(i)).length);
  }
}

uint64_t Tally::width_of(const Schedule& schedule, std::span<const Block> blocks) const {
  uint64_t width = 0;
  for (Block block : blocks) {
    if (block.space() == Space::kScratch) block = schedule.scratch[block.index()];
    width += widths_[static_cast<size_t>(block.space())][block.index()];
  }
  return width;
}

void Tally::add(const Schedule& schedule, uint64_t alike) {
  uint32_t sent = 0, received = 0;
  uint64_t bytes_sent = 0, bytes_received = 0, published = 0;
  for (const Step& step : schedule.steps) {
    const uint64_t width = width_of(schedule, schedule.blocks_of(step));
    if (step.kind == StepKind::kSend) {
      sent += step.operand_count;
      bytes_sent += width * step.operand_count;
      published += width;
      continue;
    }
    widest_ = std::max(widest_, step.operand_count);
    for (const Source source : schedule.sources_of(step)) {
      if (!source.is_message()) continue;
      ++received;
      bytes_received += width;
    }
  }
  messages_ = std::max({messages_, sent, received});
  bytes_ = std::max({bytes_, bytes_sent, bytes_received});
  published_ = std::max(published_, published);
  moved_ = std::max(moved_, published + bytes_received);
  work_ += alike * (published + bytes_received);
  scratch_ = std::max(scratch_, width_of(schedule, schedule.scratch));
}

Cost Tally::cost(uint32_t depth) const {
  Cost cost;
  cost.depth = depth;
  cost.messages = messages_;
  cost.bytes = Fraction::of(bytes_, units_);
  cost.published = Fraction::of(published_, units_);
  cost.moved = Fraction::of(moved_, units_);
  cost.work = Fraction::of(work_, units_);
  cost.scratch = Fraction::of(scratch_, units_);
  cost.widest = widest_;
  return cost;
}

std::vector<uint32_t> count_depths(const Shape& shape, std::vector<Schedule> schedules,
                                   const NodeTree& tree) {
  const LevelMap map{tree.levels(), [&](int a, int b) { return tree.common_level(a, b); },
                     [](int) { return 0u; }};
  std::vector<uint32_t> depths(tree.levels(), 0);
  const auto counted = count_by_level(shape, std::move(schedules), map);
  if (!counted.ok()) return depths;  // the verifier says why
  for (size_t i = 0; i < depths.size(); ++i) depths[i] = counted.value()[i].depth;
  return depths;
}

}  // namespace tutti::algorithms::patterns
