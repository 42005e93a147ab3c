#include "src/schedule/level_cost.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "src/schedule/layout.h"

namespace tutti::schedule {
namespace {

constexpr uint64_t kUnit = uint64_t{1} << 30;  // elements that stand for one `count`

using Chain = std::vector<uint32_t>;  // by level: the most messages of it in one chain

void take_longer(Chain& mine, const Chain& other) {
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = std::max(mine[i], other[i]);
}

/// What one rank exchanges at one level.
struct Traffic {
  uint32_t sent = 0, received = 0;  // messages
  double bytes_sent = 0, bytes_received = 0;
  double published = 0;  // a multicast counted once
};

class Count {
 public:
  Count(const Shape& shape, std::vector<Schedule> schedules, const LevelMap& map)
      : map_(map), shape_(shape) {
    const Layout layout(shape_, kUnit);
    const uint32_t blocks[2] = {shape_.input.blocks, shape_.output.blocks};
    for (const Space space : {Space::kInput, Space::kOutput}) {
      const auto index = static_cast<size_t>(space);
      for (uint32_t i = 0; i < blocks[index]; ++i) {
        const uint64_t length = layout.extent(Block::of(space, i)).length;
        widths_[index].push_back(static_cast<double>(length) / kUnit);
      }
    }
    for (Schedule& schedule : schedules) {
      Rank& made = ranks_.emplace_back();
      made.schedule = std::move(schedule);
      made.traffic.resize(map.levels);
      made.next.resize(shape_.lanes, 0);
      made.reached.assign(shape_.lanes, Chain(map.levels, 0));
      made.done.assign(made.schedule.steps.size(), false);
      made.chains.resize(made.schedule.steps.size());
    }
  }

  Result<std::vector<LevelCost>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        for (uint16_t lane = 0; lane < shape_.lanes; ++lane) moved = advance(rank, lane) || moved;
      }
    }
    for (const Rank& rank : ranks_) {
      if (std::find(rank.done.begin(), rank.done.end(), false) == rank.done.end()) continue;
      return Status::internal_error("a schedule that waits for a message which nobody sends");
    }
    return sum_up();
  }

 private:
  struct Rank {
    Schedule schedule;
    std::vector<Traffic> traffic;  // by level
    std::vector<uint32_t> next;    // by lane: the step to look at
    std::vector<Chain> reached;    // by lane
    std::vector<bool> done;        // by step
    std::vector<Chain> chains;     // by step, at its end
  };
  struct Message {
    Chain chain;
    double width = 0;
  };

  double width_of(const Schedule& schedule, std::span<const Block> blocks) const {
    double width = 0;
    for (Block block : blocks) {
      if (block.space() == Space::kScratch) block = schedule.scratch[block.index()];
      width += widths_[static_cast<size_t>(block.space())][block.index()];
    }
    return width;
  }

  // Goes on in the lane until it waits. True if it came any further.
  bool advance(int rank, uint16_t lane) {
    Rank& mine = ranks_[static_cast<size_t>(rank)];
    bool moved = false;
    uint32_t& next = mine.next[lane];
    for (; next < mine.schedule.steps.size(); ++next) {
      const Step& step = mine.schedule.steps[next];
      if (step.lane != lane) continue;
      if (!may_run(rank, step)) return moved;
      Chain& reached = mine.reached[lane];
      for (const uint32_t earlier : mine.schedule.afters_of(step)) {
        take_longer(reached, mine.chains[earlier]);
      }
      if (step.kind == StepKind::kSend) {
        send(rank, step, reached);
      } else {
        receive(rank, step, reached);
      }
      mine.done[next] = true;
      mine.chains[next] = reached;
      moved = true;
    }
    return moved;
  }

  bool may_run(int rank, const Step& step) {
    const Rank& mine = ranks_[static_cast<size_t>(rank)];
    for (const uint32_t earlier : mine.schedule.afters_of(step)) {
      if (!mine.done[earlier]) return false;
    }
    if (step.kind == StepKind::kSend) return true;
    std::map<int, size_t> wanted;
    for (const Source source : mine.schedule.sources_of(step)) {
      if (source.is_message()) ++wanted[source.peer()];
    }
    return std::all_of(wanted.begin(), wanted.end(), [&](const auto& one) {
      return channels_[{one.first, rank, step.lane}].size() >= one.second;
    });
  }

  void send(int rank, const Step& step, const Chain& reached) {
    Rank& mine = ranks_[static_cast<size_t>(rank)];
    const double width = width_of(mine.schedule, mine.schedule.blocks_of(step));
    std::vector<bool> published(map_.levels, false);
    for (const uint32_t peer : mine.schedule.peers_of(step)) {
      const size_t level = map_.level_of(rank, static_cast<int>(peer));
      Message message{reached, width};
      ++message.chain[level];
      Traffic& traffic = mine.traffic[level];
      ++traffic.sent;
      traffic.bytes_sent += width;
      if (!published[level]) traffic.published += width;
      published[level] = true;
      channels_[{rank, static_cast<int>(peer), step.lane}].push_back(std::move(message));
    }
  }

  void receive(int rank, const Step& step, Chain& reached) {
    Rank& mine = ranks_[static_cast<size_t>(rank)];
    for (const Source source : mine.schedule.sources_of(step)) {
      if (!source.is_message()) continue;
      std::deque<Message>& channel = channels_[{source.peer(), rank, step.lane}];
      Traffic& traffic = mine.traffic[map_.level_of(source.peer(), rank)];
      ++traffic.received;
      traffic.bytes_received += channel.front().width;
      take_longer(reached, channel.front().chain);
      channel.pop_front();
    }
  }

  std::vector<LevelCost> sum_up() const {
    std::vector<LevelCost> costs(map_.levels);
    std::map<std::pair<size_t, uint32_t>, double> work;  // of a level, of a host
    for (int r = 0; r < shape_.ranks; ++r) {
      const Rank& rank = ranks_[static_cast<size_t>(r)];
      for (size_t level = 0; level < map_.levels; ++level) {
        const Traffic& traffic = rank.traffic[level];
        LevelCost& cost = costs[level];
        cost.messages = std::max({cost.messages, traffic.sent, traffic.received});
        cost.bytes = std::max({cost.bytes, traffic.bytes_sent, traffic.bytes_received});
        const double moved = traffic.published + traffic.bytes_received;
        cost.moved = std::max(cost.moved, moved);
        double& of_host = work[{level, map_.host_of(r)}];
        of_host += moved;
        cost.work = std::max(cost.work, of_host);
        for (const Chain& reached : rank.reached) {
          cost.depth = std::max(cost.depth, reached[level]);
        }
      }
    }
    return costs;
  }

  const LevelMap& map_;
  const Shape shape_;
  std::vector<double> widths_[2];  // of input and output blocks
  std::vector<Rank> ranks_;
  std::map<std::tuple<int, int, uint16_t>, std::deque<Message>> channels_;
};

}  // namespace

Result<std::vector<LevelCost>> count_by_level(const Shape& shape, std::vector<Schedule> schedules,
                                              const LevelMap& map) {
  return Count(shape, std::move(schedules), map).run();
}

Result<std::vector<LevelCost>> count_by_level(const Algorithm& algorithm,
                                              const Parameters& parameters, const LevelMap& map) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    schedules.push_back(algorithm.schedule(parameters, rank));
  }
  return count_by_level(algorithm.shape(parameters), std::move(schedules), map);
}

}  // namespace tutti::schedule
