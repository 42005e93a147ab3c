#include "tutti/runtime/elastic_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/work.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kMostLayers = 4096;

/// A time as a fraction, compared exactly.
struct StageTime {
  __extension__ using Wide = __int128;
  int64_t cost = 0;
  int64_t speed = 1;
  friend bool operator<(const StageTime& a, const StageTime& b) {
    return Wide{a.cost} * b.speed < Wide{b.cost} * a.speed;
  }
};

/// The best ways to give the first so many layers to the first so many stages.
class LayerPartition {
 public:
  LayerPartition(const WorkProblem& problem, std::span<const int64_t> speeds)
      : problem_(problem), speeds_(speeds), layers_(std::ssize(problem.items)) {
    cost_.push_back(0);
    memory_.push_back(0);
    for (const WorkItem& item : problem.items) {
      cost_.push_back(cost_.back() + item.cost());
      memory_.push_back(memory_.back() + item.units * item.unit_memory);
    }
  }

  Assignment solve() {
    const StageTime slowest = least_slowest();
    const std::vector<std::vector<int64_t>> begins = fewest_moves(slowest);
    Assignment found;
    int64_t end = layers_;
    for (int64_t stage = stages() - 1; stage >= 0; --stage) {
      const int64_t begin = begins[at(stage)][at(end)];
      for (int64_t layer = end - 1; layer >= begin; --layer) {
        const int64_t units = problem_.items[at(layer)].units;
        if (units > 0) {
          found.slices.push_back({static_cast<int>(layer), 0, units, static_cast<int>(stage)});
        }
      }
      end = begin;
    }
    std::reverse(found.slices.begin(), found.slices.end());
    return found;
  }

 private:
  int64_t stages() const { return std::ssize(problem_.bins); }

  bool fits(int64_t begin, int64_t end, int64_t stage) const {
    const WorkBin& bin = problem_.bins[at(stage)];
    return cost_[at(end)] - cost_[at(begin)] <= bin.capacity &&
           memory_[at(end)] - memory_[at(begin)] <= bin.memory;
  }
  StageTime time(int64_t begin, int64_t end, int64_t stage) const {
    return {cost_[at(end)] - cost_[at(begin)], speeds_.empty() ? 1 : speeds_[at(stage)]};
  }

  StageTime least_slowest() const {
    std::vector<std::optional<StageTime>> best(at(layers_ + 1));
    best[0] = StageTime{};
    for (int64_t stage = 0; stage < stages(); ++stage) {
      std::vector<std::optional<StageTime>> next(at(layers_ + 1));
      for (int64_t end = stage + 1; end <= layers_; ++end) {
        for (int64_t begin = end - 1; begin >= 0 && fits(begin, end, stage); --begin) {
          if (!best[at(begin)]) continue;
          const StageTime slowest = std::max(*best[at(begin)], time(begin, end, stage));
          if (!next[at(end)] || slowest < *next[at(end)]) next[at(end)] = slowest;
        }
      }
      best = std::move(next);
    }
    if (!best.back()) {
      infeasible("no ", stages(), " consecutive parts of ", layers_,
                 " layers fit the memory and capacity of the stages; give more of either");
    }
    return *best.back();
  }

  /// For each stage and end of its layers, where they begin.
  std::vector<std::vector<int64_t>> fewest_moves(const StageTime& slowest) const {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    std::vector<int64_t> moved(at(layers_ + 1), kNone);
    moved[0] = 0;
    std::vector<std::vector<int64_t>> begins;
    for (int64_t stage = 0; stage < stages(); ++stage) {
      std::vector<int64_t> next(at(layers_ + 1), kNone), begin_of(at(layers_ + 1), 0);
      for (int64_t end = stage + 1; end <= layers_; ++end) {
        int64_t own = 0;
        for (int64_t begin = end - 1; begin >= 0 && fits(begin, end, stage); --begin) {
          if (slowest < time(begin, end, stage)) break;
          const WorkItem& item = problem_.items[at(begin)];
          own += bytes_moved(item, item.units, static_cast<int>(stage)).value;
          if (moved[at(begin)] == kNone || moved[at(begin)] + own >= next[at(end)]) continue;
          next[at(end)] = moved[at(begin)] + own;
          begin_of[at(end)] = begin;
        }
      }
      moved = std::move(next);
      begins.push_back(std::move(begin_of));
    }
    return begins;
  }

  const WorkProblem& problem_;
  const std::span<const int64_t> speeds_;
  const int64_t layers_;
  std::vector<int64_t> cost_, memory_;  // of the layers before each
};

void check_speeds(std::span<const int64_t> speeds, int64_t least) {
  for (const int64_t speed : speeds) {
    require(speed >= least, "a speed is ", speed, "; give ", least, " or more");
  }
}

}  // namespace

Assignment partition_layers(const WorkProblem& problem, std::span<const int64_t> speeds) {
  check_problem(problem);
  const int64_t layers = std::ssize(problem.items), stages = std::ssize(problem.bins);
  require(layers <= kMostLayers, layers, " layers; give at most ", kMostLayers);
  require(layers >= stages, layers, " layers are fewer than ", stages,
          " stages, each of which has one or more");
  require(speeds.empty() || std::ssize(speeds) == stages, speeds.size(), " speeds for ", stages,
          " stages");
  check_speeds(speeds, 1);
  return LayerPartition(problem, speeds).solve();
}

std::vector<LayerMove> layer_moves(const Assignment& before, const Assignment& after) {
  std::vector<LayerMove> moves;
  require(before.slices.size() == after.slices.size(), "the assignments have ",
          before.slices.size(), " and ", after.slices.size(), " layers; pass two of one model");
  for (size_t i = 0; i < after.slices.size(); ++i) {
    const WorkSlice &was = before.slices[i], &is = after.slices[i];
    require(was.item == is.item, "the assignments differ in layer ", was.item, " and ", is.item,
            "; pass two of one model");
    if (was.bin != is.bin) moves.push_back({is.item, was.bin, is.bin});
  }
  return moves;
}

std::vector<int64_t> split_micro_batches(int64_t micro_batches, std::span<const int64_t> speeds) {
  require(micro_batches >= 0, micro_batches, " micro-batches; give 0 or more");
  check_ranks(std::ssize(speeds));
  check_speeds(speeds, 0);
  int64_t all = 0;
  for (const int64_t speed : speeds) all = checked_sum(all, speed, "the sum of speeds");
  require(all > 0, "all speeds are 0; somebody must do the micro-batches");
  std::vector<int64_t> counts;
  int64_t left = micro_batches;
  for (const int64_t speed : speeds) {
    const StageTime::Wide share = StageTime::Wide{micro_batches} * speed / all;
    counts.push_back(static_cast<int64_t>(share));
    left -= counts.back();
  }
  // Fewer are left than there are replicas: each to the one that would be done first.
  for (; left > 0; --left) {
    size_t first = speeds.size();
    for (size_t r = 0; r < speeds.size(); ++r) {
      if (speeds[r] == 0) continue;
      const bool sooner = first == speeds.size() || StageTime{counts[r] + 1, speeds[r]} <
                                                        StageTime{counts[first] + 1, speeds[first]};
      if (sooner) first = r;
    }
    ++counts[first];
  }
  return counts;
}

Sharding inherited(const Sharding& before, std::span<const int> heirs, int ranks) {
  validate(before);
  check_ranks(ranks);
  require(before.copies == 1, "each element has ", before.copies,
          " holders; only one of them can be inherited from");
  require(std::ssize(heirs) == before.ranks, heirs.size(), " heirs for ", before.ranks, " ranks");
  Sharding after = before;
  after.ranks = ranks;
  for (Shard& shard : after.shards) {
    shard.rank = heirs[at(shard.rank)];
    require(shard.rank >= 0 && shard.rank < ranks, "an heir is rank ", shard.rank, " of ", ranks);
  }
  return after;
}

namespace {

int64_t blocks_of(int64_t elements, int64_t block) { return (elements + block - 1) / block; }

/// The blocks that each rank should hold, of which it may keep as many as it has.
std::vector<int64_t> fair_blocks(const Sharding& present, int ranks) {
  const int64_t blocks = blocks_of(present.size, present.block);
  std::vector<int64_t> held(at(ranks), 0);
  for (const Shard& shard : present.shards) {
    held[at(shard.rank)] += blocks_of(shard.length, present.block);
  }
  std::vector<int> order(at(ranks));
  std::iota(order.begin(), order.end(), 0);
  // Those that hold most have the blocks that are left over.
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return held[at(a)] > held[at(b)]; });
  std::vector<int64_t> fair(at(ranks));
  for (int64_t place = 0; place < ranks; ++place) {
    fair[at(order[at(place)])] = blocks / ranks + (place < blocks % ranks ? 1 : 0);
  }
  return fair;
}

/// Gives the first of a shard's elements to a rank that has room for so many blocks.
Shard cut_off(Shard& shard, int rank, int64_t& room, int64_t block) {
  const int64_t length = std::min(shard.length, room * block);
  room -= blocks_of(length, block);
  const Shard given{rank, shard.begin, length};
  shard.begin += length;
  shard.length -= length;
  return given;
}

}  // namespace

Sharding rebalanced(const Sharding& present, int ranks) {
  validate(present);
  check_ranks(ranks);
  require(present.copies == 1, "each element has ", present.copies,
          " holders; rebalance one copy of them");
  require(ranks >= present.ranks, ranks, " ranks are fewer than the ", present.ranks,
          " that hold something; let others inherit first");
  std::vector<int64_t> room = fair_blocks(present, ranks);
  std::vector<Shard> kept, free;
  for (Shard shard : present.shards) {
    const Shard own = cut_off(shard, shard.rank, room[at(shard.rank)], present.block);
    if (own.length > 0) kept.push_back(own);
    if (shard.length > 0) free.push_back(shard);
  }
  int to = 0;
  for (Shard shard : free) {
    while (shard.length > 0) {
      while (room[at(to)] == 0) ++to;
      kept.push_back(cut_off(shard, to, room[at(to)], present.block));
    }
  }
  std::sort(kept.begin(), kept.end(),
            [](const Shard& a, const Shard& b) { return a.begin < b.begin; });
  Sharding balanced{ranks, present.size, present.block, 1, {}};
  for (const Shard& shard : kept) {
    Shard* const last = balanced.shards.empty() ? nullptr : &balanced.shards.back();
    const bool joins =
        last != nullptr && last->rank == shard.rank && last->begin + last->length == shard.begin;
    if (joins) last->length += shard.length;
    if (!joins) balanced.shards.push_back(shard);
  }
  return balanced;
}

}  // namespace tutti::runtime
