// CO2 over real ranks: traces by hand and a serial reference; timelines of outer optimizers.
// Sections are those of the list of systems (16, 18).
#include "tutti/runtime/outer/co2.h"

#include <gtest/gtest.h>

#include <cmath>

#include "src/codecs/codecs_test.h"
#include "src/runtime/crew_test.h"
#include "src/runtime/outer/inner_test.h"
#include "tutti/runtime/outer/outer_timeline.h"

namespace tutti::runtime {
namespace {

using codecs::Values;
using outer_test::inner_step;
using outer_test::start;

// Section 16: tau = 1, two workers, three rounds, with an average that is one round old. Rank 0
// goes
// 1 a step and rank 1 goes 3; momentum 0.5, rate 1, penalty 2.
TEST(Co2, Section16TraceByHand) {
  const float rank0[] = {1, 1, 3}, rank1[] = {3, 1, 3};  // behind boundaries 1, 2, 3
  for (const int shards : {0, 1, 2}) {
    run_ranks(2, [&](tuttiComm_t comm, int rank) {
      Values params(5, 0.0f);
      Co2 optimizer({comm, 0}, params,
                    {.period = 1, .momentum = 0.5f, .penalty = 2, .shards = shards});
      for (int t = 1; t <= 3; ++t) {
        for (float& x : params) x += rank == 0 ? 1.0f : 3.0f;
        const OuterReport report = optimizer.boundary(t, params);
        EXPECT_EQ(report.applied, t == 1 ? -1 : 0);
        EXPECT_EQ(params, Values(5, (rank == 0 ? rank0 : rank1)[t - 1])) << t;
      }
      EXPECT_EQ(optimizer.finish(params).applied, 0);
      EXPECT_EQ(params, Values(5, 4.0f));
    });
  }
}

TEST(Co2, Section16ClipChangesValues) {
  for (const bool clips : {false, true}) {
    run_ranks(2, [&](tuttiComm_t comm, int rank) {
      Values params(3, 0.0f);
      Co2Spec spec{.period = 1, .momentum = 0};
      if (clips) spec.clip = 0.25f;
      Co2 optimizer({comm, 0}, params, spec);
      params.assign(3, rank == 0 ? 1.0f : 3.0f);
      optimizer.boundary(1, params);
      optimizer.finish(params);
      EXPECT_EQ(params, Values(3, clips ? 0.25f : 2.0f));
    });
  }
}

// Section 16: penalty 1, momentum 0, rate 1 and no staleness is local SGD: averages of parameters.
TEST(Co2, Section16WithoutStalenessIsLocalSgd) {
  const Values first = start(30);
  std::vector<Values> local(2, first);
  for (int64_t t = 1; t <= 6; ++t) {
    for (int r = 0; r < 2; ++r) inner_step(r, t, local[static_cast<size_t>(r)]);
    if (t % 2 != 0) continue;
    for (size_t i = 0; i < 30; ++i) {
      local[0][i] = local[1][i] = (local[0][i] + local[1][i]) / 2;
    }
  }
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    Values params = first;
    Co2 optimizer({comm, 0}, params, {.period = 2, .momentum = 0});
    for (int64_t t = 1; t <= 6; ++t) {
      inner_step(rank, t, params);
      optimizer.boundary(t, params);
      if (t % 2 == 0) optimizer.finish(params);
    }
    EXPECT_TRUE(outer_test::same(params, local[0], 1e-6f));
  });
}

TEST(Co2, Section16AllRanksShareOneModelAndShardsChangeNothing) {
  constexpr int kRanks = 4;
  std::vector<std::vector<Values>> after(3, std::vector<Values>(kRanks));
  const int shards[] = {0, 3, 4};
  for (size_t kind = 0; kind < 3; ++kind) {
    run_ranks(kRanks, [&](tuttiComm_t comm, int rank) {
      Values params = start(101);
      Co2 optimizer({comm, 0}, params,
                    {.period = 3, .momentum = 0.5f, .clip = 0.2f, .shards = shards[kind]});
      for (int64_t t = 1; t <= 18; ++t) {
        inner_step(rank, t, params);
        optimizer.boundary(t, params);
      }
      EXPECT_EQ(optimizer.shared().size(), shards[kind] == 0   ? 101u
                                           : shards[kind] == 4 ? (rank == 0 ? 26u : 25u)
                                           : rank == 3         ? 0u
                                           : rank == 2         ? 33u
                                                               : 34u);
      after[kind][static_cast<size_t>(rank)] = params;
    });
    for (const Values& params : after[kind]) EXPECT_EQ(params, after[kind][0]);
    EXPECT_TRUE(outer_test::same(after[kind][0], after[0][0], 1e-5f));
  }
}

TEST(Co2, Section16RefusesWhatCannotBe) {
  run_ranks(1, [](tuttiComm_t comm, int) {
    const Values params(4, 0.0f);
    const auto with = [&](Co2Spec spec) { Co2({comm, 0}, params, spec); };
    EXPECT_REFUSED(with({.penalty = 0.5f}), "a finite number of 1 or more");
    EXPECT_REFUSED(with({.penalty = std::nanf("")}), "a finite number of 1 or more");
    EXPECT_REFUSED(with({.clip = 0}), "a number above 0");
    EXPECT_REFUSED(with({.clip = -1}), "a number above 0");
    EXPECT_REFUSED(with({.shards = 2}), "2 shards of 1 ranks");
    EXPECT_REFUSED(with({.momentum = 1}), "less than 1");
    Co2 good({comm, 0}, params, {.period = 1});
    Values resized(5, 0.0f);
    EXPECT_REFUSED(good.boundary(1, resized), "5 parameters where there were 4");
  });
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Values params(4, 1.0f);
    Co2 optimizer({comm, 3}, params, {.period = 1});
    params[2] = rank == 1 ? INFINITY : 2;
    optimizer.boundary(1, params);
    const OuterReport report = optimizer.finish(params);
    EXPECT_NE(report.skipped.find("rank 1 voted against fragment 0 of step 1 in epoch 3"),
              std::string::npos);
    EXPECT_EQ(optimizer.shared()[2], 1);
  });
}

// ---- timelines ----

Summary summary_of(const OuterTimelineSpec& spec) {
  const Timeline timeline = outer_timeline(spec);
  EXPECT_TRUE(check(timeline).empty());
  return summarize(timeline, simulate(timeline));
}

// Section 16: with exchanges of 3 steps' time, tau = 2 exposes one step a round, tau = 3 none.
TEST(OuterTimeline, Section16ExposedTime) {
  constexpr int64_t kStep = 1'000'000;
  for (const auto& [tau, exposed] : {std::pair{2, 1}, {3, 0}}) {
    constexpr int kRounds = 5;
    const OuterTimelineSpec spec{
        .steps = tau * kRounds, .period = tau, .delay = tau, .exchange = Nanoseconds(3 * kStep)};
    // The last exchange has nothing to hide behind.
    const int64_t whole = tau * kRounds + exposed * (kRounds - 1) + 3;
    EXPECT_EQ(summary_of(spec).makespan, Nanoseconds(whole * kStep));
  }
  EXPECT_EQ(hiding_delay({.exchange = Nanoseconds(3 * kStep)}), 3);
  EXPECT_EQ(hiding_delay({.exchange = Nanoseconds(3 * kStep + 1)}), 4);
}

// Section 18: utilisation is T / (T + max(0, C - tau * T) / (H / P)) of a slot.
TEST(OuterTimeline, Section18Utilisation) {
  for (const int delay : {0, 1, 3}) {
    for (const int64_t exchange : {500'000, 2'000'000, 7'500'000}) {
      const OuterTimelineSpec spec{.steps = 400,
                                   .period = 8,
                                   .fragments = 2,
                                   .delay = delay,
                                   .exchange = Nanoseconds(exchange)};
      const double t = 1e6, c = static_cast<double>(exchange);
      EXPECT_NEAR(utilisation(spec), t / (t + std::max(0.0, c - delay * t) / 4), 1e-12);
      const Summary summary = summary_of(spec);
      EXPECT_NEAR(static_cast<double>(summary.ranks[0].computing.value) /
                      static_cast<double>(summary.makespan.value),
                  utilisation(spec), 0.01);
    }
  }
}

TEST(OuterTimeline, RefusesWhatCannotBe) {
  EXPECT_REFUSED(outer_timeline({.period = 5, .fragments = 2}), "do not divide a period of 5");
  EXPECT_REFUSED(outer_timeline({.period = 4, .fragments = 2, .delay = 3}), "give 0 to 2");
  EXPECT_REFUSED(outer_timeline({.steps = 0}), "give 1 or more");
  EXPECT_REFUSED(utilisation({.step = Nanoseconds(0)}), "give more");
}

}  // namespace
}  // namespace tutti::runtime
