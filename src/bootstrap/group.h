// Who has come to the rendezvous, and what they brought: the rules, without sockets.
//
// Errors: kInvalidUsage from join() is fatal for the whole group: the ranks disagree about it.
// Threads: one.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace tutti::bootstrap {

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr size_t kMaxBlobBytes = 16 << 10;

class Group {
 public:
  Status join(int rank, int ranks, std::string blob);
  /// The rank's process went away before the group was complete; it may come again.
  void leave(int rank);

  bool empty() const { return blobs_.empty() && left_.empty(); }
  bool complete() const { return ranks_ > 0 && blobs_.size() == static_cast<size_t>(ranks_); }
  /// Everybody's blob by rank, as decode_blobs() reads it.
  std::string encode() const;
  /// "ranks 2, 5-7 of 8 did not come".
  std::string missing() const;

 private:
  int ranks_ = 0;  // 0: nobody has come
  int first_rank_ = -1;
  std::map<int, std::string> blobs_;
  std::set<int> left_;
};

/// "2, 5-7"; at most a few, then "and 12 more".
std::string list_ranks(const std::vector<int>& ascending);

/// kRemoteError for anything but `ranks` blobs of at most kMaxBlobBytes.
Result<std::vector<std::string>> decode_blobs(std::string_view bytes, int ranks);

}  // namespace tutti::bootstrap
