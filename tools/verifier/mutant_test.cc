#include "tools/verifier/mutant.h"

#include <gtest/gtest.h>

#include <string>

#include "src/schedule/verify_examples_test.h"
#include "tools/verifier/mutant_edit.h"

namespace tutti::schedule {
namespace {

using namespace examples;

constexpr Placement kBoth[] = {Placement::kSeparate, Placement::kInPlace};

ScheduleSet from_text(const std::string& text) {
  const auto set = parse("tutti-schedule 1\ncollective " + text);
  EXPECT_TRUE(set.ok()) << set.status().message();
  return set.value();
}

TEST(RunSchedule, RightSchedulesGiveRightOutputs) {
  const ScheduleSet sets[] = {one_shot(3),        two_shot(5),       ring(4, 2),
                              gather_direct(3),   scatter_direct(4), exchange_direct(4),
                              exchange_relayed(), barrier(5),        broadcast_chain(4, 2)};
  for (const ScheduleSet& set : sets) {
    for (Placement placement : kBoth) {
      VerifyOptions verify_options;
      verify_options.placement = placement;
      const Verdict verdict = verify(set.shape, set.schedules, verify_options).value();
      for (uint64_t seed = 0; seed < 20; ++seed) {
        RunOptions options;
        options.placement = placement;
        options.count = 5 * seed;
        options.slices = 1 + seed % 4;
        options.quantum = 1 + seed % 3;
        options.credit = verdict.least_credit + static_cast<uint32_t>(seed % 2);
        options.one_thread = seed % 3 == 0;
        options.seed = seed;
        const Status status = run_schedule(set.shape, set.schedules, options);
        EXPECT_TRUE(status.ok()) << status.message() << "\n" << print(set.shape, set.schedules);
      }
    }
  }
}

// The interpreter must see what it is there to see.
TEST(RunSchedule, SeesWrongSums) {
  const auto set = from_text(
      "all_reduce\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 1\n"
      "rank 0\n send input[0] -> 1\n move output[0] <- message 1\n"
      "rank 1\n send input[0] -> 0\n move output[0] <- message 0 + input[0]\n");
  EXPECT_FALSE(run_schedule(set.shape, set.schedules, {}).ok());
}

TEST(RunSchedule, SeesDeadlocks) {
  RunOptions options;
  options.credit = 0;
  EXPECT_FALSE(run_schedule(one_shot(2).shape, one_shot(2).schedules, options).ok());
  options.credit = 1;
  EXPECT_TRUE(run_schedule(one_shot(2).shape, one_shot(2).schedules, options).ok());
}

TEST(RunSchedule, SeesRaces) {
  const auto set = from_text(
      "all_reduce\nranks 2\nroot 0\nlanes 2\ninput 1\noutput 1\n"
      "rank 0 lanes 2\n scratch output[0]\n lane 1 move scratch[0] <- message 1\n"
      " lane 0 move output[0] <- scratch[0] + input[0]\n lane 0 send input[0] -> 1\n"
      "rank 1 lanes 2\n lane 1 send input[0] -> 0\n"
      " lane 0 move output[0] <- message 0 + input[0]\n");
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RunOptions options;
    options.seed = seed;
    wrong += run_schedule(set.shape, set.schedules, options).ok() ? 0 : 1;
  }
  EXPECT_GT(wrong, 0);
}

TEST(RunSchedule, SeesOpenBarriers) {
  const auto set = from_text(
      "barrier\nranks 2\nroot 0\nlanes 1\ninput 0\noutput 0\n"
      "rank 0\n send nothing -> 1\nrank 1\n move nothing <- message 0\n");
  int wrong = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RunOptions options;
    options.seed = seed;
    wrong += run_schedule(set.shape, set.schedules, options).ok() ? 0 : 1;
  }
  EXPECT_GT(wrong, 0);
}

TEST(EditSchedule, RoundTrips) {
  for (const ScheduleSet& set : {ring(3, 2), two_shot(4), exchange_relayed()}) {
    for (const Schedule& schedule : set.schedules) {
      EXPECT_TRUE(same_program(EditSchedule::of(schedule).finish(), schedule));
    }
  }
}

TEST(EditSchedule, AftersFollowTheirSteps) {
  const auto set = from_text(
      "all_reduce\nranks 1\nroot 0\nlanes 2\ninput 1\noutput 1\n"
      "rank 0 lanes 2\n scratch input[0]\n"
      " lane 0 move scratch[0] <- input[0]\n"
      " lane 0 move scratch[0] <- input[0]\n"
      " lane 1 move output[0] <- scratch[0] after 1\n");
  const auto changed = [&](auto change) {
    EditSchedule edit = EditSchedule::of(set.schedules[0]);
    change(edit);
    return edit.steps.back().afters;
  };
  using Afters = std::vector<uint32_t>;
  EXPECT_EQ(changed([](EditSchedule& e) { e.drop(0); }), Afters{0});
  EXPECT_EQ(changed([](EditSchedule& e) { e.drop(1); }), Afters{});
  EXPECT_EQ(changed([](EditSchedule& e) { e.repeat(0); }), Afters{2});
  EXPECT_EQ(changed([](EditSchedule& e) { e.swap(0, 1); }), Afters{0});
}

void expect_all_refused(const ScheduleSet& set) {
  const MutantReport report = try_mutants(set, Placement::kSeparate);
  EXPECT_GT(report.refused, 0u);
  for (const std::string& mutant : report.survived) ADD_FAILURE() << mutant;
  for (const std::string& mutant : report.equivalent) {
    ADD_FAILURE() << "equivalent: " << mutant << "\n" << print(set.shape, set.schedules);
  }
}

TEST(Mutants, OfHandWrittenSchedulesAreRefused) {
  for (int ranks : {2, 3, 5}) {
    expect_all_refused(one_shot(ranks));
    expect_all_refused(two_shot(ranks));
    expect_all_refused(ring(ranks, 1));
    expect_all_refused(ring(ranks, 2));
    expect_all_refused(scatter_direct(ranks));
  }
}

TEST(Mutants, EquivalentOnesAreFoundOut) {
  // At three ranks everybody hears everybody directly, so a rank may wait before it sends on.
  const MutantReport waits = try_mutants(barrier(3), Placement::kSeparate);
  EXPECT_EQ(waits.equivalent.size(), 3u);
  EXPECT_TRUE(waits.survived.empty());
  EXPECT_GT(waits.refused, 20u);
  // The root may send the copy as well as the original.
  const MutantReport copies = try_mutants(broadcast_chain(4, 1), Placement::kSeparate);
  EXPECT_EQ(copies.equivalent.size(), 1u);
  EXPECT_TRUE(copies.survived.empty());
}

// In place, the second block of the output is where rank 1's input is.
TEST(Mutants, AnotherNameOfTheSameElementsIsNone) {
  const auto described = [](const ScheduleSet& set, Placement placement, const std::string& what) {
    int found = 0;
    for_each_mutant(set, placement, false, [&](const Mutant& mutant) {
      found +=
          mutant.description.starts_with("rank 1, step 0") && mutant.description.ends_with(what);
    });
    return found;
  };
  const std::string head = "all_gather\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 2\n";
  const std::string rank_0 =
      "rank 0\n move output[0] <- input[0]\n send input[0] -> 1\n"
      " move output[1] <- message 1\n";
  const std::string rank_1 = " send input[0] -> 0\n move output[0] <- message 0\n";
  const auto copies = from_text(head + rank_0 + "rank 1\n move output[1] <- input[0]\n" + rank_1);
  EXPECT_EQ(described(copies, Placement::kSeparate, "dropped"), 1);
  EXPECT_EQ(described(copies, Placement::kInPlace, "dropped"), 0);
  const auto elsewhere =
      from_text(head + rank_0 + "rank 1\n move output[0] <- input[0]\n" + rank_1);
  EXPECT_EQ(described(elsewhere, Placement::kInPlace, "dropped"), 1);
  // output[0] is the next block, and another one's.
  EXPECT_EQ(described(copies, Placement::kInPlace, "output[0] instead of output[1]"), 1);

  const auto one = from_text(
      "all_reduce\nranks 2\nroot 0\nlanes 1\ninput 1\noutput 1\n"
      "rank 0\n send input[0] -> 1\n move output[0] <- input[0] + message 1\n"
      "rank 1\n send input[0] -> 0\n move output[0] <- message 0 + input[0]\n");
  EXPECT_EQ(described(one, Placement::kSeparate, "output[0] instead of input[0]"), 1);
  EXPECT_EQ(described(one, Placement::kInPlace, "output[0] instead of input[0]"), 0);
}

TEST(Mutants, ACopyOntoItselfThatIsWaitedForIsSomething) {
  const auto set = from_text(
      "all_reduce\nranks 1\nroot 0\nlanes 2\ninput 1\noutput 1\n"
      "rank 0 lanes 2\n lane 0 move output[0] <- input[0]\n"
      " lane 1 move output[0] <- output[0] after 0\n");
  int dropped = 0;
  for_each_mutant(set, Placement::kInPlace, false, [&](const Mutant& mutant) {
    dropped += mutant.description.ends_with("): dropped");
  });
  EXPECT_EQ(dropped, 2);
}

TEST(Mutants, OfLanesWithAftersAreRefused) {
  expect_all_refused(from_text(
      "all_reduce\nranks 2\nroot 0\nlanes 2\ninput 1\noutput 1\n"
      "rank 0 lanes 2\n lane 0 move output[0] <- message 1 + input[0]\n"
      " lane 1 send output[0] -> 1 after 0\n"
      "rank 1 lanes 2\n lane 0 send input[0] -> 0\n lane 1 move output[0] <- message 0\n"));
}

}  // namespace
}  // namespace tutti::schedule
