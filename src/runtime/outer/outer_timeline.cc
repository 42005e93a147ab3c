#include "tutti/runtime/outer/outer_timeline.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_builder.h"

namespace tutti::runtime {
namespace {

void check_spec(const OuterTimelineSpec& spec) {
  require(spec.ranks >= 1 && spec.steps >= 1 && spec.period >= 1, spec.ranks, " ranks, ",
          spec.steps, " steps, a period of ", spec.period, "; give 1 or more");
  require(spec.fragments >= 1 && spec.period % spec.fragments == 0, spec.fragments,
          " fragments do not divide a period of ", spec.period, "; choose a multiple of them");
  const int between = spec.period / spec.fragments;
  require(spec.delay >= 0 && spec.delay <= between, "a delay of ", spec.delay,
          " steps where an exchange begins every ", between, "; give 0 to ", between);
  require(spec.step >= Nanoseconds(0) && spec.exchange >= Nanoseconds(0) && spec.bytes >= Bytes(0),
          "a step, an exchange and its bytes are 0 or more");
}

class OuterTimelineRank {
 public:
  OuterTimelineRank(TimelineBuilder& builder, const OuterTimelineSpec& spec, int rank)
      : builder_(builder), spec_(spec), rank_(rank), parameters_(builder.buffer()) {
    for (int f = 0; f < spec.fragments; ++f) fragments_.push_back(builder.buffer());
  }

  void add() {
    const int between = spec_.period / spec_.fragments;
    for (int s = 1; s <= spec_.steps; ++s) {
      TimelineTask task = compute("s" + std::to_string(s), spec_.step);
      task.item = int64_t{rank_} * spec_.steps + s - 1;
      builder_.add(std::move(task));
      const bool begins = s % between == 0;
      if (begins || is_any_due(s)) {
        TimelineTask boundary = compute("b" + std::to_string(s), Nanoseconds(0));
        take_over(boundary, s);
        const int turn = (s / between - 1 + spec_.fragments) % spec_.fragments;
        if (begins) boundary.writes.push_back(fragments_[at(turn)]);
        const int done = builder_.add(std::move(boundary));
        if (begins) launch(s, done, fragments_[at(turn)]);
      }
      if (!is_any_due(s)) continue;  // without a delay, what has just begun
      TimelineTask now = compute("a" + std::to_string(s), Nanoseconds(0));
      take_over(now, s);
      builder_.add(std::move(now));
    }
    TimelineTask rest = compute("rest", Nanoseconds(0));
    take_over(rest, -1);
    builder_.add(std::move(rest));
  }

 private:
  struct Launched {
    int task, buffer, due;  // behind step `due`
  };

  TimelineTask compute(std::string name, Nanoseconds duration) const {
    TimelineTask task;
    task.rank = rank_;
    task.name = std::move(name);
    task.duration = duration;
    task.writes = {parameters_};
    return task;
  }

  bool is_any_due(int step) const {
    return std::any_of(launched_.begin(), launched_.end(),
                       [&](const Launched& l) { return l.due <= step; });
  }

  /// Everything that is due behind a step; -1: everything.
  void take_over(TimelineTask& task, int step) {
    const auto is_due = [&](const Launched& l) { return step < 0 || l.due <= step; };
    for (const Launched& launched : launched_) {
      if (!is_due(launched)) continue;
      task.after.push_back(launched.task);
      task.reads.push_back(launched.buffer);
    }
    std::erase_if(launched_, is_due);
  }

  void launch(int step, int done, int buffer) {
    TimelineTask task = compute("x" + std::to_string(step), spec_.exchange);
    task.kind = TaskKind::kAllReduce;
    task.track = Track::kCommLow;
    task.channel = 0;
    task.bytes = spec_.bytes;
    task.tag = step;
    task.after = {done};
    task.reads = task.writes = {buffer};
    launched_.push_back({builder_.add(std::move(task)), buffer, step + spec_.delay});
  }

  TimelineBuilder& builder_;
  const OuterTimelineSpec& spec_;
  int rank_;
  int parameters_;
  std::vector<int> fragments_;  // buffers
  std::vector<Launched> launched_;
};

}  // namespace

Timeline outer_timeline(const OuterTimelineSpec& spec) {
  check_spec(spec);
  TimelineBuilder builder(spec.ranks);
  builder.timeline().items = int64_t{spec.ranks} * spec.steps;
  builder.channel(RankSet::range(0, spec.ranks));
  for (int rank = 0; rank < spec.ranks; ++rank) OuterTimelineRank(builder, spec, rank).add();
  return builder.take();
}

double utilisation(const OuterTimelineSpec& spec) {
  check_spec(spec);
  const Nanoseconds exposed =
      std::max(Nanoseconds(0), spec.exchange - spec.step * int64_t{spec.delay});
  const Nanoseconds computed = spec.step * int64_t{spec.period / spec.fragments};
  require(computed > Nanoseconds(0), "steps take no time; give more");
  return static_cast<double>(computed.value) / static_cast<double>((computed + exposed).value);
}

int hiding_delay(const OuterTimelineSpec& spec) {
  require(spec.step > Nanoseconds(0), "steps take no time; give more");
  return static_cast<int>((spec.exchange.value + spec.step.value - 1) / spec.step.value);
}

Timeline example_outer(int ranks) {
  OuterTimelineSpec spec;
  spec.ranks = ranks;
  spec.fragments = 2;
  spec.delay = 1;
  spec.exchange = Nanoseconds(1'500'000);
  spec.bytes = Bytes(4096);
  return outer_timeline(spec);
}

}  // namespace tutti::runtime
