// Which members a group has in one epoch: what an edit in place agrees on.
//
// A view names its predecessor by digest, so a chain of views is one history: two views of the same
// number that came from different histories have different digests, and links refuse frames of a
// digest that is not theirs.
//
// Threads: values; functions are pure. Errors: decode() gives kRemoteError for bytes that are no
// view.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/member_id.h"
#include "src/base/status.h"

namespace tutti::consensus {

/// 128 bits of a hash without a key over everything that a view says.
using Digest = std::array<uint8_t, 16>;

/// A member that is not of the previous epoch, and what the others need to reach it.
struct Newcomer {
  MemberId member;
  std::string card;
  bool operator==(const Newcomer&) const = default;
};

struct View {
  uint32_t epoch = 0;
  Digest previous{};                // of the view it was made from; zero for the first one
  std::vector<MemberId> members;    // by rank
  std::vector<Newcomer> newcomers;  // the members that the previous view lacks

  bool holds(MemberId member) const;
  Digest digest() const;
  std::string encode() const;
  static Result<View> decode(std::string_view bytes);
  bool operator==(const View&) const = default;
};

/// The order of the next epoch's members. A member that joins takes the place of one that leaves,
/// the first of one list that of the first of the other, so everybody else keeps the rank it had.
/// Where more leave than join, the ranks behind close up; where more join, they come last.
std::vector<MemberId> next_order(const std::vector<MemberId>& previous,
                                 const std::vector<MemberId>& leaving,
                                 const std::vector<MemberId>& joining);

}  // namespace tutti::consensus
