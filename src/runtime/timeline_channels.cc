#include "src/runtime/timeline_channels.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "src/runtime/index.h"

namespace tutti::runtime {
namespace {

/// Sets in as few batches as come to mind, disjoint in each: their communicators are made together.
std::vector<std::vector<RankSet>> batches_of(const std::vector<RankSet>& sets) {
  std::vector<std::vector<RankSet>> batches;
  for (const RankSet& set : sets) {
    const auto is_free = [&](const std::vector<RankSet>& batch) {
      return std::none_of(batch.begin(), batch.end(), [&](const RankSet& other) {
        return std::any_of(set.ranks().begin(), set.ranks().end(),
                           [&](int rank) { return other.place_of(rank) >= 0; });
      });
    };
    const auto found = std::find_if(batches.begin(), batches.end(), is_free);
    (found == batches.end() ? batches.emplace_back() : *found).push_back(set);
  }
  return batches;
}

/// A trunk while channels are placed on it.
struct Trunk {
  std::map<int, int> track_of;  // of each rank that drives it
  std::set<std::pair<int, int>> pairs;
};

}  // namespace

std::vector<TimelineChannels::ChannelPlace> TimelineChannels::place_messages(
    const std::map<int, ChannelMessage>& messages, size_t channels) {
  std::vector<ChannelPlace> places(channels);
  // Often ranks send on one track and receive on another. Then the ranks of a trunk are senders or
  // receivers, and the lowest bit in which the two ends differ says which is what: so all pairs of
  // n ranks take 2 log2(n) trunks.
  std::vector<std::pair<int, ChannelMessage>> sorted(messages.begin(), messages.end());
  const auto key = [](const ChannelMessage& message) {
    const auto differing = static_cast<unsigned>(message.ends[0] ^ message.ends[1]);
    const int bit = std::countr_zero(differing);
    return std::pair(bit, bit < 32 && (message.ends[0] >> bit & 1) != 0);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto& a, const auto& b) { return key(a.second) < key(b.second); });
  std::vector<Trunk> trunks;
  for (const auto& place : sorted) {
    const ChannelMessage& message = place.second;
    const std::pair pair(message.ends[0], message.ends[1]);
    const auto suits = [&](const Trunk& trunk) {
      for (const int side : {0, 1}) {
        const auto known = trunk.track_of.find(message.ends[side]);
        if (known != trunk.track_of.end() && known->second != message.tracks[side]) return false;
      }
      return !trunk.pairs.contains(pair);
    };
    auto trunk = std::find_if(trunks.begin(), trunks.end(), suits);
    if (trunk == trunks.end()) trunk = trunks.emplace(trunks.end());
    trunk->pairs.insert(pair);
    for (const int side : {0, 1}) trunk->track_of[message.ends[side]] = message.tracks[side];
    const size_t number = at(trunk - trunks.begin());
    if (number == trunks_.size()) {
      const RankSet all[] = {RankSet::range(0, ranks())};
      trunks_.push_back(made_.make_own(all));
    }
    const bool takes_part = message.ends[0] == rank() || message.ends[1] == rank();
    places[at(place.first)] = {takes_part ? trunks_[number] : nullptr, true};
  }
  return places;
}

void TimelineChannels::make_missing(const std::vector<RankSet>& wanted) {
  std::map<RankSet, size_t> counts;
  std::vector<RankSet> missing;
  for (const RankSet& set : wanted) {
    if (++counts[set] > groups_[set].size()) missing.push_back(set);
  }
  for (const std::vector<RankSet>& batch : batches_of(missing)) {
    const tuttiComm_t own = made_.make_own(batch);
    for (const RankSet& set : batch) {
      groups_[set].push_back(set.place_of(rank()) >= 0 ? own : nullptr);
    }
  }
}

std::vector<TimelineChannels::ChannelPlace> TimelineChannels::place(const Timeline& timeline) {
  std::map<int, ChannelMessage> messages;
  std::set<int> collectives;
  for (const TimelineTask& task : timeline.tasks) {
    if (!communicates(task.kind)) continue;
    if (task.kind != TaskKind::kSend && task.kind != TaskKind::kRecv) {
      collectives.insert(task.channel);
      continue;
    }
    const int side = task.kind == TaskKind::kSend ? 0 : 1;
    ChannelMessage& message = messages[task.channel];
    message.ends[side] = task.rank;
    message.tracks[side] = static_cast<int>(task.track);
  }
  std::vector<ChannelPlace> places = place_messages(messages, timeline.channels.size());
  std::vector<RankSet> wanted;
  for (const int channel : collectives) wanted.push_back(timeline.channels[at(channel)]);
  make_missing(wanted);
  std::map<RankSet, size_t> used;
  for (const int channel : collectives) {
    const RankSet& set = timeline.channels[at(channel)];
    places[at(channel)] = {groups_[set][used[set]++], false};
  }
  return places;
}

void TimelineChannels::abort() {
  for (const tuttiComm_t trunk : trunks_) tuttiCommAbort(trunk);
  for (const auto& [set, comms] : groups_) {
    for (const tuttiComm_t comm : comms) {
      if (comm != nullptr) tuttiCommAbort(comm);
    }
  }
}

}  // namespace tutti::runtime
