// Agreements under faults drawn from seeds, and the proof that broken rules are found. The slow
// test of the same name makes a million runs.
#include <gtest/gtest.h>

#include "tests/consensus/simulation.h"

namespace tutti::consensus {
namespace {

constexpr uint64_t kRuns = 2000;

TEST(AgreementRuns, KeepEveryPromise) { EXPECT_EQ(first_violation(Rules(), 1, kRuns), ""); }

// A proposer had all promises and waited for a newcomer that had joined by another one's ballot:
// the one run of a million that found it.
TEST(AgreementRuns, AProposerThatWaitsForANewcomerLearnsThatItHasJoined) {
  constexpr uint64_t kSeed = 1344198;
  EXPECT_EQ(first_violation(Rules(), kSeed, 1), "");
}

TEST(AgreementRuns, AdoptSomethingInMost) {
  const Rules rules;
  uint32_t adoptions = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    Simulation simulation(Scenario::draw(seed), rules);
    simulation.run();
    adoptions += simulation.adoptions();
  }
  EXPECT_GT(adoptions, 300u);
}

TEST(AgreementRuns, AreTheSameForTheSameSeed) {
  const Rules rules;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Simulation one(Scenario::draw(seed), rules), other(Scenario::draw(seed), rules);
    one.run();
    other.run();
    EXPECT_EQ(one.trace(), other.trace()) << seed;
  }
}

struct MajorityOffByOne : Rules {
  bool decides(const Terms& terms, const Wish& wish, const std::set<MemberId>& answered,
               const std::set<MemberId>& dead) const override {
    if (wish.who == Wish::Leave::kNamed || terms.judge == Judge::kKernel) {
      return Rules::decides(terms, wish, answered, dead);
    }
    return 2 * answered.size() >= terms.previous.members.size();
  }
};

struct DeadAreNotCounted : Rules {
  bool decides(const Terms& terms, const Wish& wish, const std::set<MemberId>& answered,
               const std::set<MemberId>& dead) const override {
    if (wish.who == Wish::Leave::kNamed || terms.judge == Judge::kKernel) {
      return Rules::decides(terms, wish, answered, dead);
    }
    return 2 * answered.size() > terms.previous.members.size() - dead.size();
  }
};

// Each side of a split takes the half that its own first answer lies in.
struct TieByIterationOrder : Rules {
  bool decides(const Terms& terms, const Wish& wish, const std::set<MemberId>& answered,
               const std::set<MemberId>& dead) const override {
    if (wish.who == Wish::Leave::kNamed || terms.judge == Judge::kKernel ||
        2 * answered.size() != terms.previous.members.size()) {
      return Rules::decides(terms, wish, answered, dead);
    }
    return answered.count(terms.self) > 0;
  }
};

struct StaleMessagesCount : Rules {
  bool is_current(const Terms&, const Digest&, const EditMessage&) const override { return true; }
};

struct AcceptedViewsAreForgotten : Rules {
  std::optional<View> bound_to(
      const std::map<MemberId, std::optional<ViewProposal>>&) const override {
    return std::nullopt;
  }
};

struct RivalsInLockstep : Rules {
  uint64_t rival_delay(const Terms&, uint32_t, Prng&) const override { return 1; }
};

constexpr uint64_t kFaultyRuns = 20000;

TEST(AgreementFaults, MajorityOffByOneIsFound) {
  EXPECT_NE(first_violation(MajorityOffByOne(), 1, kFaultyRuns), "");
}
TEST(AgreementFaults, DeadThatAreNotCountedAreFound) {
  EXPECT_NE(first_violation(DeadAreNotCounted(), 1, kFaultyRuns), "");
}
TEST(AgreementFaults, TieByIterationOrderIsFound) {
  EXPECT_NE(first_violation(TieByIterationOrder(), 1, kFaultyRuns), "");
}
TEST(AgreementFaults, StaleMessagesAreFound) {
  EXPECT_NE(first_violation(StaleMessagesCount(), 1, kFaultyRuns), "");
}
TEST(AgreementFaults, ForgottenViewsAreFound) {
  EXPECT_NE(first_violation(AcceptedViewsAreForgotten(), 1, kFaultyRuns), "");
}
// Runs in which rivals stop each other are long, so one of two members must do.
TEST(AgreementFaults, RivalsInLockstepAreFound) {
  constexpr uint64_t kFirst = 38, kRuns = 1;
  EXPECT_EQ(first_violation(Rules(), kFirst, kRuns), "");
  EXPECT_NE(first_violation(RivalsInLockstep(), kFirst, kRuns), "");
}

}  // namespace
}  // namespace tutti::consensus
