#include "tutti/runtime/skip_pipe.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kMostWays = int64_t{1} << 16;    // of one micro-batch
constexpr int64_t kMostTrials = int64_t{1} << 15;  // of whole plans
constexpr int64_t kMostTime = int64_t{1} << 50;    // ns of one visit or transfer

int stages_of(const SkipPipeSpec& spec) {
  return *std::max_element(spec.stage_of.begin(), spec.stage_of.end()) + 1;
}
Nanoseconds transfer_of(const SkipPipeSpec& spec, int from, int to) {
  return from == to ? Nanoseconds(0) : spec.transfer[at(from * std::ssize(spec.stage_of) + to)];
}

void check_times(const SkipPipeSpec& spec) {
  const int64_t ranks = std::ssize(spec.stage_of);
  require(std::ssize(spec.forward) == ranks && std::ssize(spec.backward) == ranks &&
              std::ssize(spec.transfer) == ranks * ranks,
          "there are ", spec.forward.size(), " forward, ", spec.backward.size(), " backward and ",
          spec.transfer.size(), " transfer times for ", ranks,
          " ranks; give one for each rank and each pair of them");
  for (const auto* times : {&spec.forward, &spec.backward, &spec.transfer}) {
    for (const Nanoseconds time : *times) {
      require(time >= Nanoseconds(0) && time.value <= kMostTime, "a time of ", time.value,
              " ns; give 0 to 2^50");
    }
  }
  require(spec.loss >= Nanoseconds(0) && spec.loss.value <= kMostTime, "a loss of ",
          spec.loss.value, " ns; give 0 to 2^50");
  require(spec.message >= Bytes(0) && spec.activations >= Bytes(0),
          "a message or activations of negative size");
}

void check_spec(const SkipPipeSpec& spec) {
  check_ranks(std::ssize(spec.stage_of));
  for (size_t r = 0; r < spec.stage_of.size(); ++r) {
    require(spec.stage_of[r] >= 0 && spec.stage_of[r] < std::ssize(spec.stage_of), "rank ", r,
            " is of stage ", spec.stage_of[r], "; stages are 0 and up, at most one for each rank");
  }
  const int stages = stages_of(spec);
  std::vector<int64_t> ranks_of(at(stages), 0);
  for (const int stage : spec.stage_of) ++ranks_of[at(stage)];
  for (int s = 0; s < stages; ++s) {
    require(ranks_of[at(s)] > 0, "stage ", s, " of ", stages, " has no rank");
  }
  require(spec.path_length >= std::min(2, stages) && spec.path_length <= stages, "a path of ",
          spec.path_length, " stages; give 2 to ", stages);
  require(spec.micro_batches >= 1 && spec.node_memory >= 1 && spec.orders >= 1, spec.micro_batches,
          " micro-batches, ", spec.node_memory, " on a rank, ", spec.orders,
          " orders; give 1 or more of each");
  check_parts(checked_product(spec.micro_batches, 2 * int64_t{spec.path_length} + 1, "the visits"),
              "visits");
  require(spec.seed.has_value(), "the search has no seed; give one, equal on all ranks");
  check_times(spec);
  const int64_t memory = spec.node_memory;
  if (ranks_of[0] * memory < spec.micro_batches) {
    infeasible("stage 0 has ", ranks_of[0], " ranks for ", memory, " micro-batches each, and all ",
               spec.micro_batches, " begin there");
  }
  // No stage can serve more micro-batches than there are.
  int64_t room = 0;
  for (int s = 1; s < stages; ++s) {
    room += std::min<int64_t>(ranks_of[at(s)] * memory, spec.micro_batches);
  }
  const int64_t needed = int64_t{spec.micro_batches} * (spec.path_length - 1);
  if (room < needed) {
    infeasible(spec.micro_batches, " micro-batches make ", needed,
               " visits behind stage 0, and the stages there have room for ", room,
               "; give ranks more memory, or shorter paths");
  }
}

/// All orders of stages that a path may have, then all ways over ranks.
class SkipWays {
 public:
  explicit SkipWays(const SkipPipeSpec& spec) : spec_(spec), stages_(stages_of(spec)) {
    std::vector<int> chosen = {0};
    choose(chosen);
  }
  std::vector<std::vector<int>> take() { return std::move(ways_); }

 private:
  void choose(std::vector<int>& chosen) {
    if (int(chosen.size()) == spec_.path_length) return swap(chosen, 1);
    const int missing = spec_.path_length - int(chosen.size());
    for (int s = chosen.back() + 1; s + missing <= stages_; ++s) {
      chosen.push_back(s);
      choose(chosen);
      chosen.pop_back();
    }
  }

  void swap(std::vector<int>& order, size_t from) {
    if (from + 1 >= order.size()) {
      std::vector<int> ranks;
      return place(order, ranks);
    }
    swap(order, from + 1);
    if (!spec_.swaps) return;
    std::swap(order[from], order[from + 1]);
    swap(order, from + 2);
    std::swap(order[from], order[from + 1]);
  }

  void place(const std::vector<int>& order, std::vector<int>& ranks) {
    if (ranks.size() == order.size()) {
      ways_.push_back(ranks);
      check_ways();
      return;
    }
    for (int r = 0; r < std::ssize(spec_.stage_of); ++r) {
      if (spec_.stage_of[at(r)] != order[ranks.size()]) continue;
      ranks.push_back(r);
      place(order, ranks);
      ranks.pop_back();
    }
  }

  void check_ways() const {
    require(std::ssize(ways_) <= kMostWays, "a micro-batch has more than ", kMostWays,
            " ways; plan fewer ranks or stages together, or without swaps");
  }

  const SkipPipeSpec& spec_;
  int stages_;
  std::vector<std::vector<int>> ways_;
};

/// When ranks are busy, and with how many micro-batches.
class SkipTimetable {
 public:
  explicit SkipTimetable(const SkipPipeSpec& spec)
      : spec_(spec), busy_(spec.stage_of.size()), visitors_(spec.stage_of.size(), 0) {}

  bool has_room(const std::vector<int>& way) const {
    return std::all_of(way.begin(), way.end(),
                       [this](int rank) { return visitors_[at(rank)] < spec_.node_memory; });
  }

  /// The earliest visits beside those that are booked.
  SkipPath fit(const std::vector<int>& way) const {
    SkipPath path;
    path.ranks = way;
    std::vector<std::pair<int, Nanoseconds>> stops;
    for (const int rank : way) stops.emplace_back(rank, spec_.forward[at(rank)]);
    stops.emplace_back(way.front(), spec_.loss);
    for (size_t i = way.size(); i-- > 0;) stops.emplace_back(way[i], spec_.backward[at(way[i])]);
    int64_t ready = 0;
    int before = way.front();
    for (const auto& [rank, duration] : stops) {
      ready += transfer_of(spec_, before, rank).value;
      const int64_t begin = gap(rank, ready, duration.value);
      ready = begin + duration.value;
      path.visits.push_back({rank, Nanoseconds(begin), Nanoseconds(ready)});
      before = rank;
    }
    return path;
  }

  void book(const SkipPath& path) {
    for (const int rank : path.ranks) ++visitors_[at(rank)];
    for (const SkipVisit& visit : path.visits) {
      busy_[at(visit.rank)].emplace(visit.begin.value, visit.end.value);
    }
  }

 private:
  int64_t gap(int rank, int64_t from, int64_t duration) const {
    for (const auto& [begin, end] : busy_[at(rank)]) {
      if (begin >= from + duration) break;
      from = std::max(from, end);
    }
    return from;
  }

  const SkipPipeSpec& spec_;
  std::vector<std::set<std::pair<int64_t, int64_t>>> busy_;  // of each rank: begin, end
  std::vector<int> visitors_;
};

using Ways = std::vector<std::vector<int>>;

Nanoseconds end_of(const SkipPath& path) { return path.visits.back().end; }

/// Micro-batches in this order, each by its own choice; no paths where one finds no room.
template <class Choose>
SkipPlan planned(const SkipPipeSpec& spec, const std::vector<int>& order, const Choose& choose) {
  SkipTimetable timetable(spec);
  SkipPlan plan;
  plan.paths.resize(at(spec.micro_batches));
  for (const int micro_batch : order) {
    const std::optional<SkipPath> path = choose(timetable, micro_batch);
    if (!path) return {};
    timetable.book(*path);
    plan.expected = std::max(plan.expected, end_of(*path));
    plan.paths[at(micro_batch)] = *path;
  }
  return plan;
}

void keep_better(SkipPlan& best, SkipPlan plan) {
  if (plan.paths.empty()) return;
  if (best.paths.empty() || plan.expected < best.expected) best = std::move(plan);
}

/// Every way for every micro-batch, in every order: equal micro-batches need one order only.
SkipPlan best_of_all(const SkipPipeSpec& spec, const Ways& ways) {
  std::vector<size_t> choice(at(spec.micro_batches), 0);
  std::vector<int> order(at(spec.micro_batches));
  std::iota(order.begin(), order.end(), 0);
  SkipPlan best;
  while (true) {
    keep_better(best, planned(spec, order, [&](const SkipTimetable& table, int micro_batch) {
                  const std::vector<int>& way = ways[choice[at(micro_batch)]];
                  return table.has_room(way) ? std::optional(table.fit(way)) : std::nullopt;
                }));
    size_t place = 0;
    while (place < choice.size() && ++choice[place] == ways.size()) choice[place++] = 0;
    if (place == choice.size()) break;
  }
  best.is_best = true;
  return best;
}

/// Each micro-batch takes the way that ends first.
SkipPlan best_of_orders(const SkipPipeSpec& spec, const Ways& ways) {
  std::mt19937_64 random(*spec.seed);
  SkipPlan best;
  for (int o = 0; o < spec.orders; ++o) {
    // Micro-batches are equal; the orders differ in which ways are tried first.
    std::vector<size_t> first(ways.size());
    std::iota(first.begin(), first.end(), size_t{0});
    for (size_t i = first.size(); o > 0 && i > 1; --i) std::swap(first[i - 1], first[random() % i]);
    std::vector<int> order(at(spec.micro_batches));
    std::iota(order.begin(), order.end(), 0);
    const auto choose = [&](const SkipTimetable& table, int) {
      std::optional<SkipPath> chosen;
      for (const size_t w : first) {
        if (!table.has_room(ways[w])) continue;
        SkipPath path = table.fit(ways[w]);
        if (!chosen || end_of(path) < end_of(*chosen)) chosen = std::move(path);
      }
      return chosen;
    };
    keep_better(best, planned(spec, order, choose));
  }
  return best;
}

void check_path(const SkipPipeSpec& spec, const SkipPath& path, int m) {
  require(std::ssize(path.ranks) == spec.path_length &&
              std::ssize(path.visits) == 2 * spec.path_length + 1,
          "micro-batch ", m, " has a path of ", path.ranks.size(), " ranks and ",
          path.visits.size(), " visits; it needs ", spec.path_length, " and ",
          2 * spec.path_length + 1);
  std::vector<int> stops = path.ranks;
  stops.push_back(path.ranks.front());
  stops.insert(stops.end(), path.ranks.rbegin(), path.ranks.rend());
  std::set<int> stages;
  for (size_t v = 0; v < stops.size(); ++v) {
    const int rank = stops[v];
    require(rank >= 0 && rank < std::ssize(spec.stage_of), "micro-batch ", m, " visits rank ", rank,
            ", which does not exist");
    require(path.visits[v].rank == rank, "micro-batch ", m, " makes visit ", v, " to rank ",
            path.visits[v].rank, " and not to rank ", rank, " of its path");
    stages.insert(spec.stage_of[at(rank)]);
  }
  require(spec.stage_of[at(path.ranks.front())] == 0, "micro-batch ", m,
          " does not begin in stage 0");
  require(std::ssize(stages) == spec.path_length, "micro-batch ", m, " visits a stage twice");
  for (size_t v = 0; v < stops.size(); ++v) {
    const bool is_loss = v == path.ranks.size();
    const Nanoseconds work = is_loss                 ? spec.loss
                             : v < path.ranks.size() ? spec.forward[at(stops[v])]
                                                     : spec.backward[at(stops[v])];
    const SkipVisit& visit = path.visits[v];
    const Nanoseconds ready =
        v == 0 ? Nanoseconds(0)
               : path.visits[v - 1].end + transfer_of(spec, stops[v - 1], stops[v]);
    require(visit.begin >= ready && visit.end == visit.begin + work, "visit ", v,
            " of micro-batch ", m, " is from ", visit.begin.value, " to ", visit.end.value,
            " ns, and takes ", work.value, " from ", ready.value, " on at the earliest");
  }
}

/// Visits in the order in which they begin, from cause to effect.
struct SkipTurn {
  int micro_batch = 0;
  int place = 0;
};
std::vector<SkipTurn> turns_of(const SkipPlan& plan) {
  std::vector<SkipTurn> turns;
  for (int m = 0; m < std::ssize(plan.paths); ++m) {
    for (int v = 0; v < std::ssize(plan.paths[at(m)].visits); ++v) turns.push_back({m, v});
  }
  const auto key = [&plan](const SkipTurn& turn) {
    const SkipVisit& visit = plan.paths[at(turn.micro_batch)].visits[at(turn.place)];
    return std::tuple(visit.begin, visit.end, turn.micro_batch, turn.place);
  };
  std::sort(turns.begin(), turns.end(),
            [&key](const SkipTurn& a, const SkipTurn& b) { return key(a) < key(b); });
  return turns;
}

class SkipTasks {
 public:
  SkipTasks(const SkipPipeSpec& spec, const SkipPlan& plan, TimelineBuilder& builder)
      : spec_(spec), plan_(plan), builder_(builder) {}

  void add(const SkipTurn& turn) {
    const SkipPath& path = plan_.paths[at(turn.micro_batch)];
    const int stops = int(path.visits.size()), length = int(path.ranks.size());
    const SkipVisit& visit = path.visits[at(turn.place)];
    const std::string number = std::to_string(turn.micro_batch);
    const bool is_forward = turn.place < length, is_loss = turn.place == length;
    TimelineTask task;
    task.rank = visit.rank;
    task.name = (is_forward ? "F" : is_loss ? "loss " : "B") + number;
    task.duration = visit.end - visit.begin;
    task.item = int64_t{turn.micro_batch} * stops + turn.place;
    const std::pair self{turn.micro_batch, turn.place};
    if (const auto arrived = arrivals_.find(self); arrived != arrivals_.end()) {
      task.after = {arrived->second.first};
      task.reads = {arrived->second.second};
    }
    if (is_forward) {
      kept_[self] = builder_.buffer();
      task.writes = {kept_[self]};
      task.acquires = spec_.activations;
    } else if (!is_loss) {
      task.reads.push_back(kept_.at({turn.micro_batch, stops - 1 - turn.place}));
      task.releases = spec_.activations;
    }
    const bool goes_on = turn.place + 1 < stops;
    const int to = goes_on ? path.visits[at(turn.place + 1)].rank : visit.rank;
    const int out = builder_.buffer();
    if (to != visit.rank) task.writes.push_back(out);
    const int done = builder_.add(std::move(task));
    if (to != visit.rank) send(turn, visit.rank, to, done, out);
  }

 private:
  void send(const SkipTurn& turn, int from, int to, int done, int out) {
    TimelineTask task;
    task.rank = from;
    task.track = Track::kCommLow;
    task.kind = TaskKind::kSend;
    task.name = "send " + std::to_string(turn.micro_batch);
    task.duration = transfer_of(spec_, from, to);
    task.channel = channel(from, to);
    task.bytes = spec_.message;
    const int64_t stops = 2 * int64_t{spec_.path_length} + 1;
    task.tag = int(turn.micro_batch * stops + turn.place);
    TimelineTask arrival = task;
    task.after = {done};
    task.reads = {out};
    builder_.add(std::move(task));
    arrival.rank = to;
    arrival.track = Track::kCommHigh;
    arrival.kind = TaskKind::kRecv;
    arrival.name = "recv " + std::to_string(turn.micro_batch);
    const int in = builder_.buffer();
    arrival.writes = {in};
    arrivals_[{turn.micro_batch, turn.place + 1}] = {builder_.add(std::move(arrival)), in};
  }

  int channel(int from, int to) {
    const auto [found, is_new] = channels_.try_emplace({from, to}, 0);
    if (is_new) found->second = builder_.channel(RankSet({from, to}));
    return found->second;
  }

  const SkipPipeSpec& spec_;
  const SkipPlan& plan_;
  TimelineBuilder& builder_;
  std::map<std::pair<int, int>, int> channels_;
  std::map<std::pair<int, int>, std::pair<int, int>> arrivals_;  // task, buffer
  std::map<std::pair<int, int>, int> kept_;
};

}  // namespace

SkipPlan plan_paths(const SkipPipeSpec& spec) {
  check_spec(spec);
  const Ways ways = SkipWays(spec).take();
  int64_t trials = 1;
  for (int m = 0; m < spec.micro_batches && trials <= kMostTrials; ++m) {
    trials *= std::ssize(ways);
  }
  SkipPlan plan = trials <= kMostTrials ? best_of_all(spec, ways) : best_of_orders(spec, ways);
  if (plan.paths.empty()) {
    infeasible(
        "no order of micro-batches that was tried leaves a way for each of them; try more "
        "than ",
        spec.orders, " orders, or give ranks room for more than ", spec.node_memory,
        " micro-batches");
  }
  check_paths(spec, plan.paths);
  return plan;
}

void check_paths(const SkipPipeSpec& spec, std::span<const SkipPath> paths) {
  check_spec(spec);
  require(std::ssize(paths) == spec.micro_batches, "there are ", paths.size(), " paths for ",
          spec.micro_batches, " micro-batches");
  std::vector<std::vector<std::pair<Nanoseconds, Nanoseconds>>> busy(spec.stage_of.size());
  std::vector<int> visitors(spec.stage_of.size(), 0);
  for (int m = 0; m < std::ssize(paths); ++m) {
    check_path(spec, paths[at(m)], m);
    for (const int rank : paths[at(m)].ranks) ++visitors[at(rank)];
    for (const SkipVisit& visit : paths[at(m)].visits) {
      busy[at(visit.rank)].emplace_back(visit.begin, visit.end);
    }
  }
  for (size_t r = 0; r < busy.size(); ++r) {
    require(visitors[r] <= spec.node_memory, "rank ", r, " is visited by ", visitors[r],
            " micro-batches and holds ", spec.node_memory);
    std::sort(busy[r].begin(), busy[r].end());
    for (size_t v = 1; v < busy[r].size(); ++v) {
      require(busy[r][v].first >= busy[r][v - 1].second, "rank ", r,
              " has two visits at a time at ", busy[r][v].first.value, " ns");
    }
  }
}

Timeline skip_pipeline(const SkipPipeSpec& spec, const SkipPlan& plan) {
  check_paths(spec, plan.paths);
  TimelineBuilder builder(int(spec.stage_of.size()));
  builder.timeline().items = int64_t{spec.micro_batches} * (2 * spec.path_length + 1);
  builder.timeline().memory =
      Bytes(checked_product(spec.node_memory, spec.activations.value, "the memory of a rank"));
  SkipTasks tasks(spec, plan, builder);
  for (const SkipTurn& turn : turns_of(plan)) tasks.add(turn);
  return builder.take();
}

Timeline example_skip(int ranks) {
  SkipPipeSpec spec;
  const int stages = ranks <= 2 ? ranks : (ranks + 1) / 2;
  for (int r = 0; r < ranks; ++r) {
    spec.stage_of.push_back(r % stages);
    spec.forward.emplace_back(1'000'000 + 50'000 * r);
    spec.backward.emplace_back(2'000'000 + 100'000 * r);
  }
  for (int i = 0; i < ranks * ranks; ++i) spec.transfer.emplace_back(100'000 * (1 + i % 3));
  spec.path_length = stages <= 2 ? stages : stages - 1;
  spec.node_memory = spec.micro_batches;
  spec.message = Bytes(1024);
  spec.seed = 1;
  return skip_pipeline(spec, plan_paths(spec));
}

}  // namespace tutti::runtime
