// A rank's side of the rendezvous: an authenticated all-gather of one small blob per rank.
//
// Errors: kInvalidUsage when the ranks disagree (a rank twice, two group sizes): every rank is
// told; kTimeout names the ranks that did not come; kRemoteError when the server refuses or goes
// away. Threads: blocking, bounded by the deadline; any thread. Units: deadline of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/bootstrap/unique_id.h"

namespace tutti::bootstrap {

/// A rank at a meeting place.
struct Visit {
  UniqueId id;
  int rank = 0;
  int ranks = 1;
  uint64_t deadline_ns = 0;
  bool listens_already = false;  // then a refused connection means that the server is gone
};

/// Every rank's `blob` (at most kMaxBlobBytes, group.h), by rank. All ranks call this with the same
/// id and the same number of ranks.
Result<std::vector<std::string>> exchange(const UniqueId& id, int rank, int ranks,
                                          std::string_view blob, uint64_t deadline_ns);
Result<std::vector<std::string>> exchange(const Visit& visit, std::string_view blob);

}  // namespace tutti::bootstrap
