// The ranks that have come to the rendezvous, and the blobs that they brought. These are the rules
// of a meeting; they use no sockets.
//
// Errors: kInvalidUsage from join() says that the ranks disagree about the group, which fails as a
// whole. Threads: one.
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

/// One meeting at a server: each of a group's `ranks` brings a blob, and gets the blobs of all.
struct ExchangeKey {
  int ranks = 0;
  int first = 0;  // the group is ranks first to first + ranks - 1
  int stage = 0;  // of `stages` that the group has at this server, in turn
  int stages = 1;
  uint64_t members = 0;    // a number that stands for the set of ranks that meet; 0: all of them
  int meeting_number = 0;  // of those at one place: a rank that comes to a later one waits

  /// The most bytes of one blob.
  size_t most_bytes() const { return stage == 0 ? kMaxBlobBytes : kMaxMergedBytes; }
  bool operator==(const ExchangeKey&) const = default;
};

class Group {
 public:
  /// The group is complete without the ranks of `left_out`, which rise; none of them joins.
  explicit Group(std::vector<int> left_out = {}) : left_out_(std::move(left_out)) {}

  Status join(int rank, const ExchangeKey& exchange_key, std::string blob);
  /// The rank's process went away before the group was complete; it may come again.
  void leave(int rank, uint64_t now_ns);
  /// The time since which some rank is away; kNoDeadline where none is.
  uint64_t away_since_ns() const;

  bool empty() const { return blobs_.empty() && left_.empty(); }
  bool complete() const {
    return exchange_key_.ranks > 0 &&
           blobs_.size() + left_out_.size() == static_cast<size_t>(exchange_key_.ranks);
  }
  /// All blobs by rank, as decode_blobs() reads them; that of a rank that is left out is empty.
  std::string encode() const;
  /// "ranks 2, 5-7 of 8 did not come".
  std::string missing() const;

 private:
  std::vector<int> left_out_;
  ExchangeKey exchange_key_;  // ranks is 0: nobody has come
  int first_rank_ = -1;
  std::map<int, std::string> blobs_;
  std::map<int, uint64_t> left_;  // each with the time at which it left
};

/// The error of ranks of two jobs that nothing tells apart.
Status two_jobs();

std::string encode_blobs(const std::vector<std::string>& blobs);
/// kRemoteError for anything but `ranks` blobs of at most `most_bytes` each.
Result<std::vector<std::string>> decode_blobs(std::string_view bytes, int ranks,
                                              size_t most_bytes = kMaxBlobBytes);

}  // namespace tutti::bootstrap
