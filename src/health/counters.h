// Counters for operators, from the flight recorders of running processes: calls, bytes, times and
// waits of each rank, as Prometheus text.
//
// The recorders are looked at now and then from outside, so the job pays nothing for it. Calls that
// left a recorder's ring between two looks are counted as unseen; their bytes are not known. Labels
// are numbers of communicators and ranks and names of collectives: no host, path, process or key.
//
// Threads: one at a time. Units: bytes, seconds in the text. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/trace/reader.h"

namespace tutti::health {

class CallCounters {
 public:
  /// All that has ended since the last time counts. A rank that has no snapshot any more keeps its
  /// numbers.
  void add(const std::vector<trace::Snapshot>& snapshots);

  /// The text format of Prometheus, version 0.0.4; equal counts give equal bytes.
  std::string prometheus_text() const;

 private:
  struct CollectiveCount {
    uint64_t calls = 0;
    uint64_t failed = 0;
    uint64_t bytes = 0;
    uint64_t timed = 0;  // calls whose times were recorded
    uint64_t timed_ns = 0;
  };
  struct RankCount {
    uint64_t last_order = 0;
    uint64_t unseen = 0;
    uint32_t epoch = 0;
    std::map<std::string, CollectiveCount> collectives;
    std::map<int, uint64_t> wait_ns;  // by peer
  };
  /// Communicator, rank, and the process, since a new one begins anew.
  using Key = std::tuple<uint64_t, int, uint64_t>;

  static void add(const trace::Snapshot& snapshot, RankCount& count);

  std::map<Key, RankCount> ranks_;
};

}  // namespace tutti::health
