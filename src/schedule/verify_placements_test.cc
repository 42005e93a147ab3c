#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "src/schedule/verify.h"
#include "src/schedule/verify_examples_test.h"

namespace tutti::schedule {
namespace {

using namespace examples;

constexpr Placement kSeparate[] = {Placement::kSeparate};
constexpr Placement kBoth[] = {Placement::kSeparate, Placement::kInPlace};
constexpr Placement kTurned[] = {Placement::kInPlace, Placement::kSeparate};

Result<Verdict> alone(const ScheduleSet& set, Placement placement) {
  VerifyOptions options;
  options.placement = placement;
  return verify(set.shape, set.schedules, options);
}

// Together as each alone, in both orders.
void expect_as_alone(const ScheduleSet& set) {
  for (const auto& placements : {std::span(kBoth), std::span(kTurned)}) {
    const auto together = verify(set.shape, set.schedules, placements, {});
    ASSERT_EQ(together.size(), placements.size());
    for (size_t i = 0; i < placements.size(); ++i) {
      const auto expected = alone(set, placements[i]);
      EXPECT_EQ(together[i].ok(), expected.ok());
      EXPECT_EQ(together[i].status().message(), expected.status().message());
      if (!together[i].ok() || !expected.ok()) continue;
      const Verdict& a = together[i].value();
      const Verdict& b = expected.value();
      EXPECT_TRUE(same_cost(a.cost, b.cost)) << print(a.cost) << "; alone " << print(b.cost);
      EXPECT_EQ(a.least_credit, b.least_credit);
      EXPECT_EQ(a.steps, b.steps);
      EXPECT_EQ(a.messages, b.messages);
      EXPECT_EQ(a.canonical, b.canonical);
      EXPECT_EQ(a.agrees, b.agrees);
      EXPECT_EQ(a.forwards, b.forwards);
      EXPECT_EQ(a.needs_equal_counts, b.needs_equal_counts);
    }
  }
}

// Nobody copies its own block, which lies where it belongs only in place.
ScheduleSet gather_without_copy() {
  return make(shape_of(Collective::kAllGather, 2, 1, 2), [](Builder& b, int rank) {
    const int peer = 1 - rank;
    b.send(input(0), peer);
    b.receive(output(static_cast<uint32_t>(peer)), peer);
  });
}

// Stores what comes over what it reads afterwards, which is one place only in place.
ScheduleSet reduce_too_late() {
  return make(shape_of(Collective::kAllReduce, 2, 1, 1), [](Builder& b, int rank) {
    const int peer = 1 - rank;
    const Block mine = input(0);
    const Block sum = output(0);
    b.send(mine, peer);
    b.receive(sum, peer);
    const MoveSource sources[] = {MoveSource::local(sum), MoveSource::local(mine)};
    b.move(sum, sources);
  });
}

TEST(VerifyPlacements, TogetherAsEachAlone) {
  for (int ranks : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    for (const ScheduleSet& set :
         {one_shot(ranks), two_shot(ranks), ring(ranks), ring(ranks, 2), gather_direct(ranks),
          scatter_direct(ranks), exchange_direct(ranks)}) {
      expect_as_alone(set);
    }
  }
  expect_as_alone(exchange_relayed());
}

TEST(VerifyPlacements, OneMayBeRefusedAndTheOtherAccepted) {
  EXPECT_FALSE(alone(gather_without_copy(), Placement::kSeparate).ok());
  EXPECT_TRUE(alone(gather_without_copy(), Placement::kInPlace).ok());
  expect_as_alone(gather_without_copy());
  EXPECT_TRUE(alone(reduce_too_late(), Placement::kSeparate).ok());
  EXPECT_FALSE(alone(reduce_too_late(), Placement::kInPlace).ok());
  expect_as_alone(reduce_too_late());
}

TEST(VerifyPlacements, WhatAllHaveInCommonIsRefusedInAll) {
  ScheduleSet set = make(shape_of(Collective::kAllReduce, 2, 1, 1), [](Builder& b, int rank) {
    b.send(input(0), 1 - rank);  // never received
    b.copy(output(0), input(0));
  });
  for (const auto& verdict : verify(set.shape, set.schedules, kBoth, {})) {
    EXPECT_NE(verdict.status().message().find("never received"), std::string::npos);
  }
  set.shape.ranks = 3;  // of which one has no schedule
  for (const auto& verdict : verify(set.shape, set.schedules, kBoth, {})) {
    EXPECT_FALSE(verdict.ok());
  }
  expect_as_alone(set);
}

TEST(VerifyPlacements, CostsAreComparedInEach) {
  const ScheduleSet set = one_shot(3);
  Cost wrong = alone(set, Placement::kSeparate).value().cost;
  ++wrong.messages;
  VerifyOptions options;
  options.declared = &wrong;
  for (const auto& verdict : verify(set.shape, set.schedules, kBoth, options)) {
    EXPECT_NE(verdict.status().message().find("cost: declared"), std::string::npos);
  }
  EXPECT_EQ(verify(set.shape, set.schedules, kSeparate, options).size(), 1u);
}

}  // namespace
}  // namespace tutti::schedule
