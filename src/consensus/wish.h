// The wish of the callers of an edit: which members leave and how many join.
//
// Threads: values; functions are pure. Errors: check() gives kInvalidArgument for a wish that this
// group cannot have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/consensus/view.h"

namespace tutti::consensus {

/// No member's id: in Wish::order, the newcomer with the least id that is not listed yet.
inline constexpr MemberId kAnyNewcomer{};

/// Equal on all members that take part; a member with another wish gets an error that names the
/// difference.
struct Wish {
  enum class Leave : uint8_t {
    kDead,   // all members that are known dead when the others answer
    kNamed,  // `leave`, alive or not; every member that stays must agree
  };
  Leave who = Leave::kDead;
  std::vector<MemberId> leave;  // kNamed only
  uint32_t join = 0;            // how many newcomers the edit waits for
  // If not empty: the next epoch's members by rank, kNamed only. kAnyNewcomer stands for a newcomer
  // with an id that the callers do not know.
  std::vector<MemberId> order;
  uint32_t at_least = 0;  // answers that the caller demands beyond what the rule does

  bool operator==(const Wish&) const = default;
  std::string encode() const;
  /// For people: "remove whoever is dead, 1 joins".
  std::string describe() const;
};

/// Whether the members of `previous` can want this.
Status check(const Wish& wish, const View& previous);

/// The members that a named wish keeps; of the others, all.
std::vector<MemberId> staying(const Wish& wish, const View& previous);

}  // namespace tutti::consensus
