#include "src/runtime/timeline_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kMostSum = int64_t{1} << 59;

/// Fills in the graph, step by step; each step needs the one before.
class GraphMaker {
 public:
  explicit GraphMaker(const Timeline& timeline) : timeline_(timeline) {}

  TimelineGraph make() {
    check_fields();
    if (graph_.findings.empty()) check_sums();
    if (!graph_.findings.empty()) return std::move(graph_);
    find_previous();
    find_meetings();
    find_order();
    return std::move(graph_);
  }

 private:
  template <class... Parts>
  void found(int rule, int task, const Parts&... parts) {
    graph_.findings.push_back({rule, task, words(parts...)});
  }
  const TimelineTask& task(int t) const { return timeline_.tasks[at(t)]; }
  std::string_view name(int t) const { return task(t).name; }

  /// All tasks together hold and take so little that no sum of some of them overflows.
  void check_sums() {
    int64_t sums[4] = {};
    for (const TimelineTask& work : timeline_.tasks) {
      const int64_t parts[4] = {work.duration.value, work.acquires.value, work.releases.value,
                                work.bytes.value};
      for (size_t i = 0; i < 4; ++i) {
        if (!__builtin_add_overflow(sums[i], parts[i], &sums[i]) && sums[i] <= kMostSum) continue;
        return found(2, -1, "the times, sizes or memory of all tasks are beyond 2^59 together");
      }
    }
  }

  void check_fields() {
    const int tasks = static_cast<int>(timeline_.tasks.size());
    for (int t = 0; t < tasks; ++t) {
      const TimelineTask& work = task(t);
      if (work.rank < 0 || work.rank >= timeline_.ranks) {
        found(2, t, "task '", name(t), "' is on rank ", work.rank, ", there are ", timeline_.ranks);
      }
      if (work.duration < Nanoseconds(0) || work.bytes < Bytes(0) || work.chunk < Bytes(0) ||
          work.acquires < Bytes(0) || work.releases < Bytes(0)) {
        found(2, t, "task '", name(t), "' has a negative time or size");
      }
      for (const int before : work.after) {
        if (before < 0 || before >= tasks) {
          found(2, t, "task '", name(t), "' is after task ", before, ", which there is not");
        } else if (task(before).rank != work.rank) {
          found(2, t, "task '", name(t), "' is after '", name(before),
                "' of another rank; only messages order ranks");
        }
      }
      check_channel(t);
    }
  }

  void check_channel(int t) {
    const TimelineTask& work = task(t);
    if (!communicates(work.kind)) return;
    if (work.channel < 0 || work.channel >= std::ssize(timeline_.channels)) {
      return found(2, t, "task '", name(t), "' has channel ", work.channel, ", there are ",
                   timeline_.channels.size());
    }
    const RankSet& members = timeline_.channels[at(work.channel)];
    const int place = members.place_of(work.rank);
    if (place < 0) {
      found(2, t, "task '", name(t), "' is of rank ", work.rank, ", which is not in its channel ",
            members.text());
    } else if ((work.kind == TaskKind::kSend && (members.size() != 2 || place != 0)) ||
               (work.kind == TaskKind::kRecv && (members.size() != 2 || place != 1))) {
      found(2, t, "task '", name(t), "' is on the wrong side of its channel ", members.text(),
            ", which goes from its first to its second rank");
    }
    const auto [known, is_new] = track_.emplace(std::pair(work.channel, work.rank), work.track);
    if (!is_new && known->second != work.track) {
      found(4, t, "task '", name(t), "' is on track ", std::string_view(name_of(work.track)),
            " and an earlier one of its channel on ", std::string_view(name_of(known->second)),
            "; keep a channel on one track, so that its order is fixed");
    }
  }

  void find_previous() {
    std::map<std::pair<int, Track>, int> last;
    for (int t = 0; t < std::ssize(timeline_.tasks); ++t) {
      const auto key = std::pair(task(t).rank, task(t).track);
      const auto [known, is_new] = last.emplace(key, t);
      graph_.previous.push_back(is_new ? -1 : known->second);
      known->second = t;
    }
  }

  void find_meetings() {
    graph_.meeting.assign(timeline_.tasks.size(), -1);
    // The k-th task of each member of a channel, in the order of the list.
    std::map<int, std::vector<std::vector<int>>> calls;
    for (int t = 0; t < std::ssize(timeline_.tasks); ++t) {
      if (!communicates(task(t).kind)) {
        add_meeting({t});
        continue;
      }
      const RankSet& members = timeline_.channels[at(task(t).channel)];
      auto& of_channel = calls[task(t).channel];
      of_channel.resize(at(members.size()));
      of_channel[at(members.place_of(task(t).rank))].push_back(t);
    }
    for (const auto& [channel, of_members] : calls) match(channel, of_members);
  }

  void match(int channel, const std::vector<std::vector<int>>& of_members) {
    size_t longest = 0;
    for (const std::vector<int>& own : of_members) longest = std::max(longest, own.size());
    for (size_t k = 0; k < longest; ++k) {
      std::vector<int> together;
      for (size_t place = 0; place < of_members.size(); ++place) {
        if (k < of_members[place].size()) {
          together.push_back(of_members[place][k]);
          continue;
        }
        const int lonely = std::find_if(of_members.begin(), of_members.end(), [&](const auto& own) {
                             return k < own.size();
                           })->at(k);
        const RankSet& members = timeline_.channels[at(channel)];
        found(is_message(lonely) ? 3 : 4, lonely, "call ", k, " of channel ", members.text(),
              " is missing on rank ", members[static_cast<int>(place)]);
      }
      compare(together);
      add_meeting(std::move(together));
    }
  }

  bool is_message(int t) const {
    return task(t).kind == TaskKind::kSend || task(t).kind == TaskKind::kRecv;
  }

  void compare(const std::vector<int>& together) {
    const TimelineTask& first = task(together.front());
    for (const int t : together) {
      const TimelineTask& other = task(t);
      const int rule = is_message(t) ? 3 : 4;
      if (first.tag != other.tag || first.bytes != other.bytes || first.chunk != other.chunk) {
        found(rule, t, "'", name(together.front()), "' (tag ", first.tag, ", ", first.bytes.value,
              " bytes) meets '", name(t), "' (tag ", other.tag, ", ", other.bytes.value, " bytes)");
      } else if (!is_message(t) && first.kind != other.kind) {
        found(rule, t, "'", name(together.front()), "' meets '", name(t),
              "', which is another collective");
      }
    }
  }

  void add_meeting(std::vector<int> together) {
    for (const int t : together) graph_.meeting[at(t)] = static_cast<int>(graph_.meetings.size());
    graph_.meetings.push_back(std::move(together));
  }

  void find_order() {
    std::vector<std::vector<int>> next(graph_.meetings.size());
    std::vector<int> open(graph_.meetings.size(), 0);
    const auto add = [&](int before, int t) {
      next[at(graph_.meeting[at(before)])].push_back(graph_.meeting[at(t)]);
      ++open[at(graph_.meeting[at(t)])];
    };
    for (int t = 0; t < std::ssize(timeline_.tasks); ++t) {
      if (graph_.previous[at(t)] >= 0) add(graph_.previous[at(t)], t);
      for (const int before : task(t).after) add(before, t);
    }
    for (size_t m = 0; m < open.size(); ++m) {
      if (open[m] == 0) graph_.order.push_back(static_cast<int>(m));
    }
    for (size_t done = 0; done < graph_.order.size(); ++done) {
      for (const int m : next[at(graph_.order[done])]) {
        if (--open[at(m)] == 0) graph_.order.push_back(m);
      }
    }
    if (graph_.order.size() == graph_.meetings.size()) return;
    const auto stuck = std::find_if(open.begin(), open.end(), [](int n) { return n > 0; });
    const int t = graph_.meetings[at(stuck - open.begin())].front();
    found(5, t, "task '", name(t), "' of rank ", task(t).rank,
          " waits in a circle; change the order of a track or a dependency");
  }

  const Timeline& timeline_;
  TimelineGraph graph_;
  std::map<std::pair<int, int>, Track> track_;  // of a channel on a rank
};

}  // namespace

TimelineGraph graph_of(const Timeline& timeline) { return GraphMaker(timeline).make(); }

std::vector<std::vector<int>> tasks_by_rank(const Timeline& timeline, const TimelineGraph& graph) {
  std::vector<std::vector<int>> tasks(at(timeline.ranks));
  for (const int meeting : graph.order) {
    for (const int t : graph.meetings[at(meeting)])
      tasks[at(timeline.tasks[at(t)].rank)].push_back(t);
  }
  return tasks;
}

HappensBefore::HappensBefore(const Timeline& timeline, TimelineGraph graph)
    : timeline_(timeline), graph_(std::move(graph)), position_(timeline.tasks.size(), 0) {
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    const int previous = graph_.previous[t];
    if (previous >= 0) position_[t] = position_[at(previous)] + 1;
  }
  walk(own_, -1);
}

const HappensBefore::Clocks& HappensBefore::across(int task) const {
  const int rank = timeline_.tasks[at(task)].rank;
  if (across_of_ != rank) {
    walk(across_, rank);
    across_of_ = rank;
  }
  return across_;
}

void HappensBefore::walk(Clocks& clocks, int rank) const {
  const auto join = [](Clock& into, const Clock& from) {
    for (size_t c = 0; c < into.size(); ++c) into[c] = std::max(into[c], from[c]);
  };
  clocks.at_begin.assign(timeline_.tasks.size(), {});
  clocks.at_end.assign(timeline_.tasks.size(), {});
  for (const int meeting : graph_.order) {
    Clock together{};  // all that any member of the meeting has waited for
    for (const int t : graph_.meetings[at(meeting)]) {
      Clock& begin = clocks.at_begin[at(t)];
      if (graph_.previous[at(t)] >= 0) join(begin, clocks.at_end[at(graph_.previous[at(t)])]);
      for (const int before : timeline_.tasks[at(t)].after) join(begin, clocks.at_end[at(before)]);
      join(together, begin);
    }
    for (const int t : graph_.meetings[at(meeting)]) {
      Clock& end = clocks.at_end[at(t)];
      end = rank < 0 ? clocks.at_begin[at(t)] : together;
      if (rank >= 0 && timeline_.tasks[at(t)].rank != rank) continue;
      int32_t& own = end[at(track_of(t))];
      own = std::max(own, position_[at(t)] + 1);
    }
  }
}

}  // namespace tutti::runtime
