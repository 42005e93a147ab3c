// Paths of micro-batches that skip stages: the checker, the search against all plans, the times.
#include "tutti/runtime/skip_pipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "src/runtime/crew_test.h"

namespace tutti::runtime {
namespace {

/// Equal ranks; no time for messages.
SkipPipeSpec even_spec(std::vector<int> stage_of, int micro_batches, int path) {
  SkipPipeSpec spec;
  const size_t ranks = stage_of.size();
  spec.stage_of = std::move(stage_of);
  spec.micro_batches = micro_batches;
  spec.path_length = path;
  spec.node_memory = micro_batches;
  spec.forward.assign(ranks, Nanoseconds(1000));
  spec.backward.assign(ranks, Nanoseconds(2000));
  spec.transfer.assign(ranks * ranks, Nanoseconds(0));
  spec.seed = 7;
  return spec;
}

SkipPipeSpec random_spec(unsigned seed, std::vector<int> stage_of, int micro_batches, int path) {
  std::mt19937 random(seed);
  SkipPipeSpec spec = even_spec(std::move(stage_of), micro_batches, path);
  for (auto* times : {&spec.forward, &spec.backward, &spec.transfer}) {
    for (Nanoseconds& time : *times) time = Nanoseconds(int64_t(random() % 1000));
  }
  spec.loss = Nanoseconds(100);
  return spec;
}

// (e): skipping k of S equal stages takes (S - k) / S of the time.
TEST(SkipPipe, FourOfSixStagesTakeTwoThirds) {
  const std::vector<int> stages = {0, 1, 2, 3, 4, 5};
  const SkipPlan whole = plan_paths(even_spec(stages, 1, 6));
  const SkipPlan part = plan_paths(even_spec(stages, 1, 4));
  EXPECT_EQ(whole.expected.value, 6 * 3000);
  EXPECT_EQ(part.expected.value, 4 * 3000);
  EXPECT_NEAR(double(part.expected.value) / double(whole.expected.value), 0.667, 0.001);
  const Timeline timeline = skip_pipeline(even_spec(stages, 1, 4), part);
  expect_sound(timeline);
  EXPECT_EQ(summarize(timeline, simulate(timeline)).makespan, part.expected);
}

/// All plans of a case by counting through them, with times of its own: each rank takes what is
/// ready in the order of the micro-batches' numbers, all of one micro-batch before the next.
int64_t best_by_hand(const SkipPipeSpec& spec) {
  const int ranks = int(spec.stage_of.size()), length = spec.path_length;
  std::vector<std::vector<int>> ways;
  std::vector<int> digits(size_t(length), 0);
  while (true) {  // all words of ranks, of which few are paths
    bool is_path = spec.stage_of[size_t(digits[0])] == 0;
    for (int i = 1; i < length; ++i) {
      is_path &=
          spec.stage_of[size_t(digits[size_t(i)])] > spec.stage_of[size_t(digits[size_t(i - 1)])];
    }
    if (is_path) ways.push_back(digits);
    size_t place = 0;
    while (place < digits.size() && ++digits[place] == ranks) digits[place++] = 0;
    if (place == digits.size()) break;
  }
  int64_t best = INT64_MAX;
  std::vector<size_t> choice(size_t(spec.micro_batches), 0);
  while (true) {
    std::vector<std::vector<std::pair<int64_t, int64_t>>> busy(static_cast<size_t>(ranks));
    std::vector<int> visitors(size_t(ranks), 0);
    int64_t last = 0;
    for (const size_t c : choice) {
      std::vector<int> stops = ways[c];
      for (const int rank : stops) ++visitors[size_t(rank)];
      stops.push_back(stops.front());
      for (int i = length; i-- > 0;) stops.push_back(ways[c][size_t(i)]);
      int64_t now = 0;
      for (size_t v = 0; v < stops.size(); ++v) {
        const auto rank = size_t(stops[v]);
        if (v > 0 && stops[v - 1] != stops[v]) {
          now += spec.transfer[size_t(stops[v - 1]) * size_t(ranks) + rank].value;
        }
        const int64_t work = v == size_t(length)  ? spec.loss.value
                             : v < size_t(length) ? spec.forward[rank].value
                                                  : spec.backward[rank].value;
        while (std::any_of(busy[rank].begin(), busy[rank].end(), [&](const auto& other) {
          return other.first < now + work && other.second > now;
        })) {
          ++now;
        }
        busy[rank].emplace_back(now, now + work);
        now += work;
      }
      last = std::max(last, now);
    }
    if (*std::max_element(visitors.begin(), visitors.end()) <= spec.node_memory) {
      best = std::min(best, last);
    }
    size_t place = 0;
    while (place < choice.size() && ++choice[place] == ways.size()) choice[place++] = 0;
    if (place == choice.size()) return best;
  }
}

TEST(SkipPipe, SmallCasesAreAsGoodAsAllPlans) {
  for (unsigned seed = 0; seed < 6; ++seed) {
    for (const int path : {2, 3}) {
      SkipPipeSpec spec = random_spec(seed, {0, 0, 1, 1, 2, 2}, 3, path);
      for (Nanoseconds& time : spec.forward) time = Nanoseconds(time.value / 20 + 1);
      for (Nanoseconds& time : spec.backward) time = Nanoseconds(time.value / 20 + 1);
      for (Nanoseconds& time : spec.transfer) time = Nanoseconds(time.value / 20);
      spec.loss = Nanoseconds(3);
      spec.node_memory = 2;
      const SkipPlan plan = plan_paths(spec);
      EXPECT_TRUE(plan.is_best);
      EXPECT_EQ(plan.expected.value, best_by_hand(spec)) << seed << " " << path;
    }
  }
}

// The authors' public example: 20 nodes in 5/3/3/3/3/3, memory 3, 6 micro-batches.
TEST(SkipPipe, TwentyNodesFindPathsThatRun) {
  std::vector<int> stage_of(5, 0);
  for (int s = 1; s < 6; ++s) stage_of.insert(stage_of.end(), 3, s);
  SkipPipeSpec spec = random_spec(3, stage_of, 6, 4);
  spec.node_memory = 3;
  spec.orders = 4;
  const SkipPlan plan = plan_paths(spec);
  EXPECT_FALSE(plan.is_best);
  check_paths(spec, plan.paths);
  const Timeline timeline = skip_pipeline(spec, plan);
  expect_sound(timeline);
  EXPECT_EQ(fingerprint(timeline), fingerprint(skip_pipeline(spec, plan_paths(spec))));
  SkipPipeSpec full = spec;
  full.path_length = 6;
  EXPECT_LT(plan.expected, plan_paths(full).expected);
  spec.swaps = true;
  EXPECT_LE(plan_paths(spec).expected.value, plan.expected.value * 11 / 10);
}

TEST(SkipPipe, NeighboursChangePlacesOnlyWhereAllowed) {
  SkipPipeSpec spec = even_spec({0, 1, 2, 3}, 1, 4);
  // It is far from stage 0 to 1, and from 2 to 3.
  spec.transfer[1] = spec.transfer[2 * 4 + 3] = Nanoseconds(5000);
  EXPECT_EQ(plan_paths(spec).paths[0].ranks, std::vector<int>({0, 1, 2, 3}));
  spec.swaps = true;
  EXPECT_EQ(plan_paths(spec).paths[0].ranks, std::vector<int>({0, 2, 1, 3}));
}

TEST(SkipPipe, TheCheckerFindsWhatIsWrong) {
  const SkipPipeSpec spec = even_spec({0, 1, 1, 2}, 2, 3);
  const SkipPlan good = plan_paths(spec);
  const auto refused = [&](const auto& change) {
    SkipPlan bad = good;
    change(bad.paths);
    return refusal([&] { check_paths(spec, bad.paths); });
  };
  const auto has = [](const std::string& sentence, const char* words) {
    return sentence.find(words) != std::string::npos;
  };
  EXPECT_TRUE(has(refused([](auto& p) { p.pop_back(); }), "1 paths for 2"));
  EXPECT_TRUE(has(refused([](auto& p) { p[0].ranks.pop_back(); }), "2 ranks and 7 visits"));
  EXPECT_TRUE(has(refused([](auto& p) { p[0].ranks[1] = 9; }), "rank 9"));
  EXPECT_TRUE(has(refused([](auto& p) { p[0].visits[1].rank = 3; }), "and not to rank"));
  EXPECT_TRUE(has(refused([](auto& p) { p[0].visits[2].begin += Nanoseconds(1); }), "takes"));
  EXPECT_TRUE(has(refused([&](auto& p) { p[1] = p[0]; }), "two visits at a time"));
  EXPECT_TRUE(has(refused([](auto& p) {
                    for (int v : {1, 2, 4, 5})
                      p[0].visits[size_t(v)].rank = v == 1 || v == 5 ? 1 : 2;
                    p[0].ranks = {0, 1, 2};
                  }),
                  "visits a stage twice"));
  EXPECT_TRUE(has(refused([](auto& p) {
                    for (int v : {0, 3, 6}) p[0].visits[size_t(v)].rank = 3;
                    for (int v : {2, 4}) p[0].visits[size_t(v)].rank = 0;
                    p[0].ranks[0] = 3, p[0].ranks[2] = 0;
                  }),
                  "does not begin in stage 0"));
  SkipPipeSpec narrow = spec;
  narrow.node_memory = 1;
  EXPECT_INFEASIBLE(check_paths(narrow, good.paths), "stage 0 has 1 ranks");
}

TEST(SkipPipe, WrongNumbersAreRefused) {
  const auto with = [](const auto& change) {
    SkipPipeSpec spec = even_spec({0, 1, 2}, 2, 2);
    change(spec);
    return plan_paths(spec);
  };
  EXPECT_REFUSED(with([](auto& s) { s.path_length = 1; }), "give 2 to 3");
  EXPECT_REFUSED(with([](auto& s) { s.path_length = 4; }), "give 2 to 3");
  EXPECT_REFUSED(with([](auto& s) { s.stage_of = {0, 2, 2}; }), "stage 1 of 3 has no rank");
  EXPECT_REFUSED(with([](auto& s) { s.stage_of[1] = 3; }), "rank 1 is of stage 3");
  EXPECT_REFUSED(with([](auto& s) { s.forward.pop_back(); }), "2 forward");
  EXPECT_REFUSED(with([](auto& s) { s.transfer[1] = Nanoseconds(-1); }), "a time of -1");
  EXPECT_REFUSED(with([](auto& s) { s.seed.reset(); }), "no seed");
  EXPECT_REFUSED(with([](auto& s) { s.micro_batches = 0; }), "0 micro-batches");
  EXPECT_INFEASIBLE(plan_paths([] {
                      SkipPipeSpec spec = even_spec({0, 0, 1, 2}, 2, 3);
                      spec.node_memory = 1;
                      return spec;
                    }()),
                    "4 visits behind stage 0, and the stages there have room for 2");
}

}  // namespace
}  // namespace tutti::runtime
