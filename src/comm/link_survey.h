// Measures latency and bandwidth between the hosts of a new group while it is made, where neither a
// model that hosts keep nor a cluster file says anything of them.
//
// Each level between hosts has a round, in which a few pairs of ranks measure at the same time; no
// rank is in two pairs of a round. A pair stops when the round's share of the time is used up,
// counted from when its two ranks have met. All ranks come to one model by the numbers of all
// pairs.
//
// Threads: a value. Errors: what exchanges return; kRemoteError for an answer that is none. Units:
// nanoseconds, and nanoseconds per byte.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/exec/transfer.h"
#include "src/group/view.h"
#include "src/select/model.h"

namespace tutti::comm {

class LinkSurvey {
 public:
  static constexpr size_t kMostPairs = 4;                // of a level
  static constexpr uint64_t kTimeNs = 900'000'000;       // of all rounds together
  static constexpr size_t kMostBytes = size_t{4} << 20;  // of a message

  /// The one rank begins, the other one answers.
  struct Pair {
    size_t level = 0;
    int leads = 0;
    int answers = 0;
    bool operator==(const Pair&) const = default;
  };

  /// Of levels of which the group says nothing.
  explicit LinkSurvey(const group::GroupView& group, uint64_t time_ns = kTimeNs);

  /// Innermost levels first. None: everything is known, or there is one host.
  const std::vector<Pair>& pairs() const { return pairs_; }
  /// How many numbers the survey has: two for each pair.
  size_t numbers() const { return 2 * pairs_.size(); }

  /// Sends and receives of one call, which progress together. Blocks.
  using Exchange = std::function<Status(std::span<const exec::Transfer>)>;
  /// This rank's part. `found` has numbers() elements, and gets those of the pairs that it leads.
  Status measure(int rank, const Exchange& exchange, std::span<double> found) const;

  /// `found`: of every pair, from whoever leads it.
  std::vector<select::LevelRates> rates(std::span<const double> found) const;

 private:
  void add_level(const group::GroupView& group, size_t level);

  uint64_t round_ns_ = 0;
  std::vector<Pair> pairs_;
  std::vector<std::string> names_;  // by level of the group
};

/// For people: "network 31.0 us, 0.93 GB/s".
std::string describe(std::span<const select::LevelRates> rates);

}  // namespace tutti::comm
