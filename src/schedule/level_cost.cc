#include "src/schedule/level_cost.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "src/schedule/rank_traffic.h"

namespace tutti::schedule {
namespace {

/// The most messages of a level in one chain, and the most bytes.
struct ChainPart {
  uint32_t messages = 0;
  double bytes = 0;
};
using Chain = std::vector<ChainPart>;  // by level

void take_longer(Chain& mine, const Chain& other) {
  for (size_t i = 0; i < mine.size(); ++i) {
    mine[i].messages = std::max(mine[i].messages, other[i].messages);
    mine[i].bytes = std::max(mine[i].bytes, other[i].bytes);
  }
}

class Count {
 public:
  Count(const Shape& shape, std::vector<Schedule> schedules, const LevelMap& map)
      : map_(map), shape_(shape), widths_(shape_) {
    for (Schedule& schedule : schedules) {
      const auto rank = static_cast<int>(ranks_.size());
      RankWalk& made = ranks_.emplace_back();
      made.schedule = std::move(schedule);
      made.traffic = traffic_of(made.schedule, rank, widths_, map);
      made.next.resize(shape_.lanes, 0);
      made.reached.assign(shape_.lanes, Chain(map.levels));
      made.begun.resize(shape_.lanes);
      made.done.assign(made.schedule.steps.size(), false);
      made.chains.resize(made.schedule.steps.size());
    }
  }

  Result<LevelCounts> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < shape_.ranks; ++rank) {
        for (uint16_t lane = 0; lane < shape_.lanes; ++lane) moved = advance(rank, lane) || moved;
      }
    }
    for (const RankWalk& rank : ranks_) {
      if (std::find(rank.done.begin(), rank.done.end(), false) == rank.done.end()) continue;
      return Status::internal_error("a schedule that waits for a message which nobody sends");
    }
    return sum_up();
  }

 private:
  struct RankWalk {
    Schedule schedule;
    std::vector<RankTraffic> traffic;  // by level
    std::vector<uint32_t> next;        // by lane: the step to look at
    std::vector<Chain> reached;        // by lane
    std::vector<Chain> begun;          // by lane: at the end of its first step
    std::vector<bool> done;            // by step
    std::vector<Chain> chains;         // by step, at its end
  };

  // Goes on in the lane until it waits. True if it came any further.
  bool advance(int rank, uint16_t lane) {
    RankWalk& mine = ranks_[static_cast<size_t>(rank)];
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
      if (mine.begun[lane].empty()) mine.begun[lane] = reached;
      mine.done[next] = true;
      mine.chains[next] = reached;
      moved = true;
    }
    return moved;
  }

  bool may_run(int rank, const Step& step) {
    const RankWalk& mine = ranks_[static_cast<size_t>(rank)];
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
    const Schedule& schedule = ranks_[static_cast<size_t>(rank)].schedule;
    const double width = widths_.of(schedule, schedule.blocks_of(step));
    for (const uint32_t peer : schedule.peers_of(step)) {
      const auto target = static_cast<int>(peer);
      Chain chain = reached;
      ChainPart& part = chain[map_.level_of(rank, target)];
      ++part.messages;
      part.bytes += width;
      channels_[{rank, target, step.lane}].push_back(std::move(chain));
    }
  }

  void receive(int rank, const Step& step, Chain& reached) {
    for (const Source source : ranks_[static_cast<size_t>(rank)].schedule.sources_of(step)) {
      if (!source.is_message()) continue;
      std::deque<Chain>& channel = channels_[{source.peer(), rank, step.lane}];
      take_longer(reached, channel.front());
      channel.pop_front();
    }
  }

  static void add_chains(const RankWalk& rank, uint16_t lane, size_t level, LevelCost& cost) {
    const ChainPart& reached = rank.reached[lane][level];
    cost.depth = std::max(cost.depth, reached.messages);
    cost.path = std::max(cost.path, reached.bytes);
    if (rank.begun[lane].empty()) return;  // the rank has no part in the lane
    cost.span = std::max(cost.span, reached.messages - rank.begun[lane][level].messages);
  }

  LevelCounts sum_up() {
    LevelCounts counts;
    std::vector<LevelCost>& costs = counts.costs;
    costs.resize(map_.levels);
    std::map<std::pair<size_t, uint32_t>, double> work;  // of a level, of a host
    for (int r = 0; r < shape_.ranks; ++r) {
      const RankWalk& rank = ranks_[static_cast<size_t>(r)];
      for (size_t level = 0; level < map_.levels; ++level) {
        const RankTraffic& traffic = rank.traffic[level];
        LevelCost& cost = costs[level];
        cost.messages = std::max(cost.messages, messages_of(traffic));
        cost.bytes = std::max({cost.bytes, traffic.bytes_sent, traffic.bytes_received});
        const double moved = traffic.published + traffic.bytes_received;
        cost.moved = std::max(cost.moved, moved);
        double& of_host = work[{level, map_.host_of(r)}];
        of_host += moved;
        cost.work = std::max(cost.work, of_host);
        for (uint16_t lane = 0; lane < shape_.lanes; ++lane) add_chains(rank, lane, level, cost);
      }
    }
    for (RankWalk& rank : ranks_) counts.traffic.push_back(std::move(rank.traffic));
    return counts;
  }

  const LevelMap& map_;
  const Shape shape_;
  const BlockWidths widths_;
  std::vector<RankWalk> ranks_;
  std::map<std::tuple<int, int, uint16_t>, std::deque<Chain>> channels_;
};

}  // namespace

Result<LevelCounts> count_traffic(const Shape& shape, std::vector<Schedule> schedules,
                                  const LevelMap& map) {
  return Count(shape, std::move(schedules), map).run();
}

Result<std::vector<LevelCost>> count_by_level(const Shape& shape, std::vector<Schedule> schedules,
                                              const LevelMap& map) {
  Result<LevelCounts> counts = count_traffic(shape, std::move(schedules), map);
  if (!counts.ok()) return counts.status();
  return std::move(counts.value().costs);
}

Result<std::vector<LevelCost>> count_by_level(const Algorithm& algorithm,
                                              const Parameters& parameters, const LevelMap& map) {
  return count_by_level(algorithm.shape(parameters), schedules_of(algorithm, parameters), map);
}

std::vector<Schedule> schedules_of(const Algorithm& algorithm, const Parameters& parameters) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    schedules.push_back(algorithm.schedule(parameters, rank));
  }
  return schedules;
}

}  // namespace tutti::schedule
