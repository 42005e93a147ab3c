#include "src/health/slow_peers.h"

#include <algorithm>
#include <utility>

#include "src/health/delay_matrix.h"

namespace tutti::health {

// A call counts where it and the one before it have times: the recorder takes those of long calls,
// and of some of the short ones.
SlowPeers::PeerWindow SlowPeers::window_of(const trace::Snapshot& snapshot, uint64_t& last_order) {
  constexpr uint32_t kFewestCalls = 3;
  PeerWindow window;
  uint32_t calls = 0;
  const trace::CallRecord* before = nullptr;
  const uint64_t looked_at = last_order;
  for (const trace::CallRecord& call : snapshot.calls) {
    if (call.state != trace::RecordState::kDone) break;
    const trace::CallRecord* const earlier = std::exchange(before, &call);
    last_order = std::max(last_order, call.order);
    const bool is_timed = call.start_ns != 0 && call.end_ns >= call.start_ns;
    const bool follows = earlier != nullptr && earlier->order + 1 == call.order &&
                         earlier->end_ns != 0 && earlier->end_ns <= call.start_ns;
    if (!is_timed || !follows || call.order <= looked_at) continue;
    window.between_ns += static_cast<double>(call.start_ns - earlier->end_ns);
    window.inside_ns += static_cast<double>(call.end_ns - call.start_ns);
    ++calls;
  }
  window.counts = calls >= kFewestCalls;
  window.between_ns /= std::max(1u, calls);
  window.inside_ns /= std::max(1u, calls);
  return window;
}

void SlowPeers::add(uint64_t communicator, const std::map<int, const trace::Snapshot*>& ranks,
                    std::vector<SlowPeer>& found) {
  WatchedGroup& group = groups_[communicator];
  std::vector<int> seen;
  std::vector<double> between;
  std::vector<SignalSample> samples;
  bool counts = true;
  for (const auto& [rank, snapshot] : ranks) {
    const PeerWindow window = window_of(*snapshot, group.last_order[rank]);
    counts = counts && window.counts;
    seen.push_back(rank);
    between.push_back(window.between_ns);
    samples.push_back({window.between_ns, group.windows + 1});
    samples.push_back({-window.inside_ns, group.windows + 1});
  }
  if (seen != group.ranks) {
    group.ranks = seen;
    group.monitor.reset();
    Result<PeerMonitor> made = PeerMonitor::make(static_cast<uint32_t>(seen.size()), 2, rules_);
    if (made.ok()) group.monitor = std::move(made).value();  // to compare few says nothing
  }
  if (!counts || !group.monitor) return;
  const Result<std::vector<uint32_t>> slow = group.monitor->add(++group.windows, samples);
  if (!slow.ok()) return;
  for (const uint32_t place : slow.value()) {
    found.push_back({communicator, seen[place], between[place], median(between)});
  }
}

std::vector<SlowPeer> SlowPeers::add(const std::vector<trace::Snapshot>& snapshots) {
  std::map<uint64_t, std::map<int, const trace::Snapshot*>> groups;
  for (const trace::Snapshot& one : snapshots) groups[one.communicator][one.rank] = &one;
  std::erase_if(groups_, [&](const auto& group) { return !groups.contains(group.first); });
  std::vector<SlowPeer> found;
  for (const auto& [communicator, ranks] : groups) add(communicator, ranks, found);
  return found;
}

}  // namespace tutti::health
