// Which ranks a new group has, decided by all of them alike from what each brought to a meeting.
//
// Threads: pure functions. Errors: kInvalidUsage when ranks want different things, naming two of
// them; kRemoteError for bytes that are no proposal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace tutti::comm {

/// The wish of one rank; most of it must be equal on all of them.
struct Proposal {
  std::string what;      // "split", "shrink", "grow"
  std::string argument;  // equal on all ranks: the excluded ranks, the new size
  int32_t color = 0;
  int32_t key = 0;
  std::string nonce;
  std::string secret;  // of one rank for all, sealed; empty on the others

  std::string encode() const;
  static Result<Proposal> decode(std::string_view bytes);
};

/// All proposals by member, or why they do not fit together. `members` are named in messages.
Result<std::vector<Proposal>> agree(const std::vector<std::string>& blobs,
                                    const std::vector<int>& members);

/// Indices of the proposals with this colour, by key and then by index.
std::vector<int> with_color(const std::vector<Proposal>& proposals, int color);

/// All ranks of [0, ranks) that are not excluded, or why the list is wrong.
Result<std::vector<int>> survivors(int ranks, const int* excluded, int excluded_count);

/// Equal on all members, and never again.
std::string salt_of(const std::vector<Proposal>& proposals, int color);

}  // namespace tutti::comm
