#include "tutti/runtime/timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"
#include "src/runtime/timeline_graph.h"

namespace tutti::runtime {
namespace {

void check_items(const Timeline& timeline, std::vector<Finding>& findings) {
  std::vector<int> done(at(std::max<int64_t>(timeline.items, 0)), 0);
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    const int64_t item = timeline.tasks[t].item;
    if (item < -1 || item >= timeline.items) {
      findings.push_back({1, static_cast<int>(t),
                          words("task '", timeline.tasks[t].name, "' does item ", item,
                                ", there are ", timeline.items)});
    } else if (item >= 0) {
      ++done[at(item)];
    }
  }
  for (size_t item = 0; item < done.size(); ++item) {
    if (done[item] == 1) continue;
    findings.push_back({1, -1, words("item ", item, " is done ", done[item], " times, not once")});
  }
}

void check_memory(const Timeline& timeline, const HappensBefore& order,
                  const std::vector<std::vector<int>>& of_ranks, std::vector<Finding>& findings) {
  if (timeline.memory <= Bytes(0)) return;
  for (size_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].empty()) continue;
    // An order that other ranks make can only lessen what a rank holds at one time.
    Bytes most = most_memory(timeline, of_ranks[r], order.by_itself());
    if (most > timeline.memory) {
      most = most_memory(timeline, of_ranks[r], order.across(of_ranks[r].front()));
    }
    if (most <= timeline.memory) continue;
    findings.push_back({6, -1,
                        words("rank ", r, " may need ", most.value,
                              " bytes at one time, in some "
                              "order of its tracks that nothing forbids; the limit is ",
                              timeline.memory.value)});
  }
}

struct BufferAccess {
  int task;
  bool writes;
};

/// The accesses to one buffer; `before(a, b)` says whether a ends before b begins.
template <class Before>
void check_buffer(const Timeline& timeline, const Before& before,
                  const std::vector<BufferAccess>& accesses, std::vector<Finding>& findings) {
  const auto name = [&](int t) { return std::string_view(timeline.tasks[at(t)].name); };
  for (size_t i = 0; i < accesses.size(); ++i) {
    const BufferAccess& a = accesses[i];
    bool is_written = a.writes;
    for (size_t j = 0; j < accesses.size(); ++j) {
      const BufferAccess& b = accesses[j];
      if (b.task == a.task) continue;
      is_written = is_written || (b.writes && before(b.task, a.task));
      if (j < i || (!a.writes && !b.writes)) continue;
      if (before(a.task, b.task) || before(b.task, a.task)) continue;
      findings.push_back(
          {7, b.task,
           words("tasks '", name(a.task), "' and '", name(b.task), "' of rank ",
                 timeline.tasks[at(a.task)].rank, " use one buffer and nothing orders them")});
    }
    if (!is_written) {
      findings.push_back(
          {7, a.task,
           words("task '", name(a.task), "' of rank ", timeline.tasks[at(a.task)].rank,
                 " reads a buffer that nobody wrote before")});
    }
  }
}

void check_buffers(const Timeline& timeline, const HappensBefore& order,
                   const std::vector<std::vector<int>>& of_ranks, std::vector<Finding>& findings) {
  for (const std::vector<int>& tasks : of_ranks) {
    std::map<int, std::vector<BufferAccess>> accesses;
    for (const int t : tasks) {
      const TimelineTask& task = timeline.tasks[at(t)];
      for (const int buffer : task.writes) accesses[buffer].push_back({t, true});
      // A task that reads and writes a buffer needs a writer before it, too: its read is an access
      // of its own.
      for (const int buffer : task.reads) accesses[buffer].push_back({t, false});
    }
    for (const auto& [buffer, of_buffer] : accesses) {
      std::vector<Finding> found;
      check_buffer(
          timeline, [&](int a, int b) { return order.ends_before_by_itself(a, b); }, of_buffer,
          found);
      if (found.empty()) continue;
      // Messages of other ranks may order what the rank's own tracks do not.
      check_buffer(
          timeline, [&](int a, int b) { return order.ends_before(a, b); }, of_buffer, findings);
    }
  }
}

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

/// Disjoint and sorted.
Intervals united(Intervals intervals) {
  std::sort(intervals.begin(), intervals.end());
  Intervals result;
  for (const auto& [begin, end] : intervals) {
    if (begin == end) continue;
    if (!result.empty() && begin <= result.back().second) {
      result.back().second = std::max(result.back().second, end);
    } else {
      result.emplace_back(begin, end);
    }
  }
  return result;
}

int64_t length_of(const Intervals& intervals) {
  int64_t length = 0;
  for (const auto& [begin, end] : intervals) length += end - begin;
  return length;
}

int64_t common_length(const Intervals& a, const Intervals& b) {
  int64_t length = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    length +=
        std::max<int64_t>(0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return length;
}

Bytes peak_of(const Timeline& timeline, const History& history, const std::vector<size_t>& tasks) {
  // (time, change); at one time what is freed comes first: its task has ended.
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (const size_t t : tasks) {
    const TimelineTask& task = timeline.tasks[t];
    if (task.acquires.value > 0) {
      changes.emplace_back(history.spans[t].ready.value, task.acquires.value);
    }
    if (task.releases.value > 0) {
      changes.emplace_back(history.spans[t].end.value, -task.releases.value);
    }
  }
  std::sort(changes.begin(), changes.end());
  int64_t held = 0, peak = 0;
  for (const auto& [time, change] : changes) peak = std::max(peak, held += change);
  return Bytes(peak);
}

}  // namespace

const char* name_of(Track track) {
  switch (track) {
    case Track::kCompute:
      return "compute";
    case Track::kCommHigh:
      return "comm high";
    case Track::kCommLow:
      return "comm low";
    case Track::kCopy:
      return "copy";
  }
  return "";
}

bool communicates(TaskKind kind) { return kind != TaskKind::kCompute && kind != TaskKind::kCopy; }

std::vector<Finding> check(const Timeline& timeline) {
  TimelineGraph graph = graph_of(timeline);
  std::vector<Finding> findings = std::move(graph.findings);
  check_items(timeline, findings);
  // Without an order there are no times and nothing is before anything.
  if (graph.meetings.empty() || graph.order.size() != graph.meetings.size()) return findings;
  const std::vector<std::vector<int>> of_ranks = tasks_by_rank(timeline, graph);
  const HappensBefore order(timeline, std::move(graph));
  check_memory(timeline, order, of_ranks, findings);
  check_buffers(timeline, order, of_ranks, findings);
  return findings;
}

void expect_sound(const Timeline& timeline) {
  const std::vector<Finding> findings = check(timeline);
  if (findings.empty()) return;
  throw Error(ErrorKind::kInvalidInput,
              words("the timeline breaks rule ", findings[0].rule, ": ",
                    std::string_view(findings[0].sentence), findings.size() > 1 ? " (and " : "",
                    findings.size() > 1 ? std::to_string(findings.size() - 1) : std::string(),
                    findings.size() > 1 ? " more findings)" : ""));
}

Summary summarize(const Timeline& timeline, const History& history) {
  require(history.spans.size() == timeline.tasks.size(), "the history has ", history.spans.size(),
          " spans and the timeline ", timeline.tasks.size(), " tasks; they do not belong together");
  Summary summary;
  for (const TaskSpan& span : history.spans)
    summary.makespan = std::max(summary.makespan, span.end);
  std::vector<std::vector<size_t>> of_ranks(at(std::max(0, timeline.ranks)));
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    const int rank = timeline.tasks[t].rank;
    require(rank >= 0 && rank < timeline.ranks, "task '", timeline.tasks[t].name, "' is on rank ",
            rank, ", there are ", timeline.ranks);
    of_ranks[at(rank)].push_back(t);
  }
  for (const std::vector<size_t>& tasks : of_ranks) {
    Intervals computing, communicating;
    for (const size_t t : tasks) {
      const TimelineTask& task = timeline.tasks[t];
      if (task.kind == TaskKind::kCopy) continue;
      (communicates(task.kind) ? communicating : computing)
          .emplace_back(history.spans[t].begin.value, history.spans[t].end.value);
    }
    computing = united(std::move(computing));
    communicating = united(std::move(communicating));
    RankSummary own;
    own.computing = Nanoseconds(length_of(computing));
    own.communicating = Nanoseconds(length_of(communicating));
    own.exposed = own.communicating - Nanoseconds(common_length(computing, communicating));
    own.idle = summary.makespan - own.computing;
    own.peak = peak_of(timeline, history, tasks);
    summary.ranks.push_back(own);
  }
  return summary;
}

uint64_t fingerprint(const Timeline& timeline) {
  Fingerprint print;
  print.add(timeline.ranks);
  print.add(timeline.items);
  print.add(timeline.memory.value);
  for (const RankSet& channel : timeline.channels) print.add(channel.text());
  for (const TimelineTask& task : timeline.tasks) {
    print.add(task.name);
    for (const int64_t word :
         {int64_t{task.rank}, int64_t(task.track), int64_t(task.kind), task.duration.value,
          int64_t{task.channel}, task.bytes.value, task.chunk.value, int64_t{task.tag},
          task.acquires.value, task.releases.value, task.item, int64_t{task.link}}) {
      print.add(word);
    }
    for (const std::vector<int>* list : {&task.after, &task.reads, &task.writes}) {
      print.add(std::ssize(*list));
      for (const int word : *list) print.add(word);
    }
  }
  return print.value();
}

}  // namespace tutti::runtime
