#include "src/runtime/timeline_graph.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

/// Fills in the graph, step by step; each step needs the one before.
class GraphMaker {
 public:
  explicit GraphMaker(const Timeline& timeline) : timeline_(timeline) {}

  TimelineGraph make() {
    check_fields();
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

HappensBefore::HappensBefore(const Timeline& timeline, const TimelineGraph& graph)
    : chains_(at(timeline.ranks) * kTracks),
      position_(timeline.tasks.size(), 0),
      at_begin_(timeline.tasks.size() * chains_, 0),
      at_end_(at_begin_) {
  for (size_t t = 0; t < timeline.tasks.size(); ++t) {
    const TimelineTask& task = timeline.tasks[t];
    chain_.push_back(at(task.rank) * kTracks + at(static_cast<int>(task.track)));
    const int previous = graph.previous[t];
    if (previous >= 0) position_[t] = position_[at(previous)] + 1;
  }
  for (const int meeting : graph.order) {
    for (const int t : graph.meetings[at(meeting)]) {
      if (graph.previous[at(t)] >= 0) join(at_begin_, at(t), at_end_, at(graph.previous[at(t)]));
      for (const int b : timeline.tasks[at(t)].after) join(at_begin_, at(t), at_end_, at(b));
    }
    for (const int t : graph.meetings[at(meeting)]) {
      for (const int with : graph.meetings[at(meeting)]) join(at_end_, at(t), at_begin_, at(with));
      int32_t& own = at_end_[at(t) * chains_ + chain_of(t)];
      own = std::max(own, position_[at(t)] + 1);
    }
  }
}

void HappensBefore::join(std::vector<int32_t>& into, size_t to, const std::vector<int32_t>& from,
                         size_t what) {
  for (size_t c = 0; c < chains_; ++c) {
    into[to * chains_ + c] = std::max(into[to * chains_ + c], from[what * chains_ + c]);
  }
}

}  // namespace tutti::runtime
