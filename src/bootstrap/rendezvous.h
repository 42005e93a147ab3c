// A rank's side of the rendezvous: an authenticated all-gather of one small blob per rank.
//
// Errors: kInvalidUsage when the ranks disagree (a rank twice, two group sizes): every rank is
// told; kTimeout names the ranks that did not come; kRemoteError when the server refuses or goes
// away, or when a rank aborts. Threads: blocking while the wait limit lasts and the server lives;
// any thread. When it takes long, the server is asked which ranks have not come, and they are
// named.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/clock.h"
#include "src/base/status.h"
#include "src/base/wait_limit.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

/// A rank at a meeting place.
struct JoinOptions {
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  WaitLimit wait_limit{0};
  /// The listener exists before the server. So a refused connection means that the server is gone,
  /// a connection without an answer that it has not begun to serve, and one that is closed without
  /// an answer that the server held another meeting.
  bool listens_already = false;
  uint64_t members = 0;      // as in ExchangeKey (group.h)
  int meeting_number = 0;    // likewise
  std::string awaited = {};  // for messages: the one that serves here; "": the maker of the id
  /// Called every `look_ns` while ranks are missing, to find out whether they can still come.
  std::function<void()> look = {};
  uint64_t look_ns = kNoDeadline;
  uint64_t farewell_ns = kNanosecondsPerSecond;  // how long decline() looks for the server
  bool twin = false;  // decline() says that this rank is of another job (kTwin)
};

/// Returns every rank's `blob` (at most kMaxBlobBytes, group.h), by rank. All ranks call this with
/// the same id and the same number of ranks.
Result<std::vector<std::string>> exchange(const UniqueId& id, int rank, int ranks,
                                          std::string_view blob, const WaitLimit& wait_limit);
Result<std::vector<std::string>> exchange(const JoinOptions& join, std::string_view blob);

/// The same for groups so large that one server would be a bottleneck: every id is the meeting
/// place of a part of the ranks, in order (Part). The parts' first ranks meet at the first id and
/// bring everything back. All ranks give the same ids, at most one for each rank; each id serves
/// one group.
Result<std::vector<std::string>> exchange(std::span<const UniqueId> ids, int rank, int ranks,
                                          std::string_view blob, const WaitLimit& wait_limit);

/// Says that this rank does not come after all, though it may have come to earlier stages. The
/// ranks that wait there are told, if the server can be reached within JoinOptions::farewell_ns.
void decline(const JoinOptions& join);
void decline(std::span<const UniqueId> ids, int rank, int ranks);

/// The ranks that meet at one of several ids. Every id has a run of ranks; the lengths of runs
/// differ by at most one, and longer runs come first, as NCCL spreads them.
struct RanksOfId {
  int index = 0;
  int first = 0;
  int ranks = 0;
};
RanksOfId part_of(int rank, int ranks, int parts);
RanksOfId part_at(int index, int ranks, int parts);

}  // namespace tutti::bootstrap
