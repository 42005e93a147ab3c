// The ranks that have come to the rendezvous, and what they brought: the rules, without sockets.
//
// Errors: kInvalidUsage from join() is fatal for the whole group: the ranks disagree about it.
// Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace tutti::bootstrap {

inline constexpr int kMaxRanks = 1 << 20;
inline constexpr size_t kMaxBlobBytes = 16 << 10;
/// The bytes that one rank may bring for many (rendezvous.h: groups that meet at several places).
inline constexpr size_t kMaxMergedBytes = 256 << 20;

/// One meeting at a server: all `ranks` of a group bring something, and get everything.
struct ExchangeKey {
  int ranks = 0;
  int first = 0;  // the group is ranks first to first + ranks - 1
  int stage = 0;  // of those that the group has at this server
  int stages = 1;
  uint64_t members = 0;    // a number for which of the ranks meet; 0: all of them
  int meeting_number = 0;  // of meetings at the same place: who comes to another one waits

  /// Of one blob.
  size_t most_bytes() const { return stage == 0 ? kMaxBlobBytes : kMaxMergedBytes; }
  bool operator==(const ExchangeKey&) const = default;
};

class Group {
 public:
  /// Complete without the ranks of `left_out` (rising), none of which joins.
  explicit Group(std::vector<int> left_out = {}) : left_out_(std::move(left_out)) {}

  Status join(int rank, const ExchangeKey& exchange_key, std::string blob);
  /// The rank's process went away before the group was complete; it may come again.
  void leave(int rank, uint64_t now_ns);
  /// Since when somebody is away; kNoDeadline: nobody is.
  uint64_t away_since_ns() const;

  bool empty() const { return blobs_.empty() && left_.empty(); }
  bool complete() const {
    return exchange_key_.ranks > 0 &&
           blobs_.size() + left_out_.size() == static_cast<size_t>(exchange_key_.ranks);
  }
  /// Everybody's blob by rank, as decode_blobs() reads it; empty for ranks that are left out.
  std::string encode() const;
  /// "ranks 2, 5-7 of 8 did not come".
  std::string missing() const;

 private:
  std::vector<int> left_out_;
  ExchangeKey exchange_key_;  // ranks is 0: nobody has come
  int first_rank_ = -1;
  std::map<int, std::string> blobs_;
  std::map<int, uint64_t> left_;  // and when
};

/// Ranks of two jobs have come, or are about to, that nothing tells apart.
Status two_jobs();

std::string encode_blobs(const std::vector<std::string>& blobs);
/// kRemoteError for anything but `ranks` blobs of at most `most_bytes` each.
Result<std::vector<std::string>> decode_blobs(std::string_view bytes, int ranks,
                                              size_t most_bytes = kMaxBlobBytes);

}  // namespace tutti::bootstrap
