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

History simulate_graph(const Timeline& timeline, const TimelineGraph& graph) {
  History history;
  history.spans.resize(timeline.tasks.size());
  for (const int meeting : graph.order) {
    const std::vector<int>& together = graph.meetings[at(meeting)];
    Nanoseconds begin{0}, duration{0};
    for (const int t : together) {
      Nanoseconds& ready = history.spans[at(t)].ready;
      const auto wait_for = [&](int other) {
        ready = std::max(ready, history.spans[at(other)].end);
      };
      if (graph.previous[at(t)] >= 0) wait_for(graph.previous[at(t)]);
      for (const int before : timeline.tasks[at(t)].after) wait_for(before);
      begin = std::max(begin, ready);
      duration = std::max(duration, timeline.tasks[at(t)].duration);
    }
    for (const int t : together) {
      history.spans[at(t)].begin = begin;
      history.spans[at(t)].end = begin + duration;
    }
  }
  return history;
}

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

void check_memory(const Timeline& timeline, const History& history,
                  std::vector<Finding>& findings) {
  if (timeline.memory <= Bytes(0)) return;
  const Summary summary = summarize(timeline, history);
  for (size_t r = 0; r < summary.ranks.size(); ++r) {
    if (summary.ranks[r].peak <= timeline.memory) continue;
    findings.push_back({6, -1,
                        words("rank ", r, " needs ", summary.ranks[r].peak.value,
                              " bytes at its peak, the limit is ", timeline.memory.value)});
  }
}

struct BufferAccess {
  int task;
  bool writes;
};

void check_buffer(const Timeline& timeline, const HappensBefore& order,
                  const std::vector<BufferAccess>& accesses, std::vector<Finding>& findings) {
  const auto name = [&](int t) { return std::string_view(timeline.tasks[at(t)].name); };
  for (size_t i = 0; i < accesses.size(); ++i) {
    const BufferAccess& a = accesses[i];
    bool is_written = a.writes;
    for (size_t j = 0; j < accesses.size(); ++j) {
      const BufferAccess& b = accesses[j];
      if (b.task == a.task) continue;
      is_written = is_written || (b.writes && order.ends_before(b.task, a.task));
      if (j < i || (!a.writes && !b.writes)) continue;
      if (order.ends_before(a.task, b.task) || order.ends_before(b.task, a.task)) continue;
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

void check_buffers(const Timeline& timeline, const TimelineGraph& graph,
                   std::vector<Finding>& findings) {
  const HappensBefore order(timeline, graph);
  std::map<std::pair<int, int>, std::vector<BufferAccess>> accesses;
  for (int t = 0; t < std::ssize(timeline.tasks); ++t) {
    const TimelineTask& task = timeline.tasks[at(t)];
    for (const int buffer : task.writes) accesses[{task.rank, buffer}].push_back({t, true});
    for (const int buffer : task.reads) {
      // A task that reads and writes a buffer needs a writer before it, too: its read is an access
      // of its own.
      accesses[{task.rank, buffer}].push_back({t, false});
    }
  }
  for (const auto& [where, of_buffer] : accesses) {
    check_buffer(timeline, order, of_buffer, findings);
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

Bytes peak_of(const Timeline& timeline, const History& history, int rank) {
  // (time, change); at one time what is freed comes first: its task has ended.
  std::vector<std::pair<int64_t, int64_t>> changes;
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    const TimelineTask& task = timeline.tasks[t];
    if (task.rank != rank) continue;
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
  check_memory(timeline, simulate_graph(timeline, graph), findings);
  check_buffers(timeline, graph, findings);
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

History simulate(const Timeline& timeline) {
  const TimelineGraph graph = graph_of(timeline);
  if (!graph.findings.empty()) {
    throw Error(ErrorKind::kInvalidInput, graph.findings.front().sentence);
  }
  return simulate_graph(timeline, graph);
}

Summary summarize(const Timeline& timeline, const History& history) {
  require(history.spans.size() == timeline.tasks.size(), "the history has ", history.spans.size(),
          " spans and the timeline ", timeline.tasks.size(), " tasks; they do not belong together");
  Summary summary;
  for (const TaskSpan& span : history.spans)
    summary.makespan = std::max(summary.makespan, span.end);
  for (int rank = 0; rank < timeline.ranks; ++rank) {
    Intervals computing, communicating;
    for (size_t t = 0; t < timeline.tasks.size(); ++t) {
      const TimelineTask& task = timeline.tasks[t];
      if (task.rank != rank || task.kind == TaskKind::kCopy) continue;
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
    own.peak = peak_of(timeline, history, rank);
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
          task.acquires.value, task.releases.value, task.item}) {
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
