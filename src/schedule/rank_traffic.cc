#include "src/schedule/rank_traffic.h"

#include <algorithm>

#include "src/schedule/layout.h"

namespace tutti::schedule {

BlockWidths::BlockWidths(const Shape& shape) {
  constexpr uint64_t kUnit = uint64_t{1} << 30;  // elements that stand for one `count`
  const Layout layout(shape, kUnit);
  const uint32_t blocks[2] = {shape.input.blocks, shape.output.blocks};
  for (const Space space : {Space::kInput, Space::kOutput}) {
    const auto index = static_cast<size_t>(space);
    for (uint32_t i = 0; i < blocks[index]; ++i) {
      const uint64_t length = layout.extent(Block::of(space, i)).length;
      widths_[index].push_back(static_cast<double>(length) / kUnit);
    }
  }
}

double BlockWidths::of(const Schedule& schedule, std::span<const Block> blocks) const {
  double width = 0;
  for (Block block : blocks) {
    if (block.space() == Space::kScratch) block = schedule.scratch[block.index()];
    width += widths_[static_cast<size_t>(block.space())][block.index()];
  }
  return width;
}

std::vector<RankTraffic> traffic_of(const Schedule& schedule, int rank, const BlockWidths& widths,
                                    const LevelMap& map) {
  std::vector<RankTraffic> traffic(map.levels);
  std::vector<bool> sends(map.levels, false), published(map.levels);
  for (const Step& step : schedule.steps) {
    const double width = widths.of(schedule, schedule.blocks_of(step));
    published.assign(map.levels, false);
    if (step.kind == StepKind::kSend) {
      for (const uint32_t peer : schedule.peers_of(step)) {
        const size_t level = map.level_of(rank, static_cast<int>(peer));
        RankTraffic& at = traffic[level];
        ++at.sent;
        at.bytes_sent += width;
        if (!published[level]) at.published += width;
        published[level] = true;
        sends[level] = true;
      }
      continue;
    }
    const auto sources = schedule.sources_of(step);
    const bool only_receives = sources.size() == 1 && sources[0].is_message();
    const size_t moved_at = only_receives ? map.level_of(sources[0].peer(), rank) : 0;
    traffic[moved_at].moved += width * static_cast<double>(1 + sources.size()) / 2;
    for (const Source source : sources) {
      if (!source.is_message()) continue;
      const size_t level = map.level_of(source.peer(), rank);
      RankTraffic& at = traffic[level];
      if (sends[level] || at.received == 0) ++at.turns;
      sends[level] = false;
      ++at.received;
      at.bytes_received += width;
    }
  }
  for (RankTraffic& at : traffic) at.turns += at.received == 0 && at.sent > 0 ? 1 : 0;
  return traffic;
}

uint32_t messages_of(const RankTraffic& traffic) {
  return std::max(traffic.sent, traffic.received);
}

}  // namespace tutti::schedule
