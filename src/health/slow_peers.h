// Feeds monitors of peers (peer_monitor.h) with what flight recorders say, look by look: the ranks
// of each communicator that are slower than the others for long.
//
// A look is a window. Two signals are taken from the calls of a rank that have ended since the last
// look: how long it was outside of calls on average, and how short its calls were, since who comes
// last waits the least. Both are durations by the rank's own clock. A window counts for the ranks
// that are seen if each of them has ended three timed calls in it; where other ranks are seen than
// before, a communicator is watched anew.
//
// Threads: one at a time. Units: nanoseconds. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "src/health/peer_monitor.h"
#include "src/trace/reader.h"

namespace tutti::health {

/// A rank that has stood out for as many windows in a row as the rules want.
struct SlowPeer {
  uint64_t communicator = 0;
  int rank = 0;
  double between_ns = 0;        // its calls, on average, in the last window
  double usual_between_ns = 0;  // median of all ranks
  bool operator==(const SlowPeer&) const = default;
};

class SlowPeers {
 public:
  explicit SlowPeers(const MonitorRules& rules = {}) : rules_(rules) {}

  /// A look at all recorders. Returns who is suspected now, by communicator and rank.
  std::vector<SlowPeer> add(const std::vector<trace::Snapshot>& snapshots);

 private:
  /// Of the calls of a rank that have ended in one window.
  struct PeerWindow {
    double between_ns = 0, inside_ns = 0;  // on average
    bool counts = false;
  };
  struct WatchedGroup {
    std::optional<PeerMonitor> monitor;
    std::vector<int> ranks;
    std::map<int, uint64_t> last_order;  // by rank: of the calls that were looked at
    uint64_t windows = 0;
  };

  static PeerWindow window_of(const trace::Snapshot& snapshot, uint64_t& last_order);
  void add(uint64_t communicator, const std::map<int, const trace::Snapshot*>& ranks,
           std::vector<SlowPeer>& found);

  const MonitorRules rules_;
  std::map<uint64_t, WatchedGroup> groups_;  // by communicator
};

}  // namespace tutti::health
