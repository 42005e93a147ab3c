// The decisions on which the safety of an agreement rests, apart from the machine that asks for
// them, so that a test can replace each by a faulty one and see that the fault is found.
//
// Threads: no state. Errors: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/base/prng.h"
#include "src/consensus/message.h"
#include "src/consensus/view.h"
#include "src/consensus/wish.h"

namespace tutti::consensus {

/// How members know that another one is dead.
enum class Judge : uint8_t {
  kKernel,    // all members are on one host, and its kernel tells; it is never wrong
  kMajority,  // nobody knows for sure, so more than half of the members must answer
};

/// The terms on which a member agrees.
struct Terms {
  View previous;
  MemberId self;
  Judge judge = Judge::kMajority;
  uint64_t retry = 0;  // ticks after which an unanswered message is sent again; above 0
  uint64_t seed = 0;   // of the random delays between rivals
};

class Rules {
 public:
  virtual ~Rules() = default;

  /// Whether the members in `answered` may decide. Any two sets that may, under one wish, have a
  /// member in common, which is why two views of one epoch are never adopted:
  ///  - kNamed: all that stay.
  ///  - kKernel: all that are not dead. A dead member stays dead, so one in a later set was alive,
  ///    and therefore asked, when an earlier one decided.
  ///  - kMajority: more than half of all members of the epoch, the dead counted as members. At
  ///    exactly half, the half with the least member.
  virtual bool decides(const Terms& terms, const Wish& wish, const std::set<MemberId>& answered,
                       const std::set<MemberId>& dead) const;

  /// Whether a message is about this epoch, and from a member that may send it. `view` is the
  /// digest of the present epoch.
  virtual bool is_current(const Terms& terms, const Digest& view, const EditMessage& message) const;

  /// The view that a proposer must propose: that of the accepted proposal with the highest ballot,
  /// if there is one.
  virtual std::optional<View> bound_to(
      const std::map<MemberId, std::optional<ViewProposal>>& promises) const;

  /// Ticks until a proposer that met a rival tries again.
  virtual uint64_t rival_delay(const Terms& terms, uint32_t tries, Prng& random) const;
};

}  // namespace tutti::consensus
