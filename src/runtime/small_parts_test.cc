// Costs, counts and merges: training_systems 2, 3.1, 3.5, 3.6, 3.8, 3.15, 3.19.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"
#include "src/runtime/halves.h"
#include "tutti/runtime/cost.h"
#include "tutti/runtime/counters.h"
#include "tutti/runtime/partial_softmax.h"

namespace tutti::runtime {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Machine two_nodes() {
  return Machine({{8, {Nanoseconds(1000), 200}}, {2, {Nanoseconds(5000), 25}}}, 16);
}

// Section 2: rings move V (p - 1) / p a rank, an all_reduce twice that.
TEST(RuntimeCost, RingsTakeTheirSharesOverTheSlowestLevelTheyNeed) {
  const RankSet node = RankSet::range(0, 8), all = RankSet::range(0, 16);
  const Bytes bytes(16'000'000);
  EXPECT_EQ(collective_time(two_nodes(), node, TaskKind::kAllGather, bytes),
            Nanoseconds(7 * 1000 + 14'000'000 / 200));
  EXPECT_EQ(collective_time(two_nodes(), all, TaskKind::kAllReduce, bytes),
            Nanoseconds(2 * (15 * 5000 + 15'000'000 / 25)));
  EXPECT_EQ(collective_time(two_nodes(), RankSet({3, 9}), TaskKind::kSend, Bytes(2500)),
            Nanoseconds(5000 + 100));
}

// 3.5 (e): folded, the experts' groups stay in a node; 3.15: three levels.
TEST(RuntimeCost, FoldingKeepsExpertsInOneNode) {
  const Mesh unfolded({{"cp", 8}, {"ep", 2}});  // ep outside of cp: over both nodes
  const Mesh folded = unfolded.fold({{"ep", 8}, {"edp", 2}}, {});
  const std::vector<std::string> ep{"ep"};
  const Machine machine = two_nodes();
  for (int rank = 0; rank < 16; ++rank) {
    EXPECT_EQ(machine.places_touched(unfolded.group(ep, rank), 0), 2);
    EXPECT_EQ(machine.places_touched(folded.group(ep, rank), 0), 1);
    EXPECT_EQ(machine.span_of(folded.group(ep, rank)), 0);
  }
  const Machine frontier({{2, {Nanoseconds(0), 400}}, {4, {Nanoseconds(0), 100}}, {4, {}}}, 32);
  EXPECT_EQ(frontier.span_of(RankSet({0, 1})), 0);
  EXPECT_EQ(frontier.span_of(RankSet({1, 2})), 1);
  EXPECT_EQ(frontier.span_of(RankSet({7, 8})), 2);
  // Throughput falls when a group leaves the fastest level.
  EXPECT_LT(collective_time(frontier, RankSet({0, 1}), TaskKind::kAllReduce, Bytes(1 << 20)),
            collective_time(frontier, RankSet({1, 2}), TaskKind::kAllReduce, Bytes(1 << 20)));
}

TEST(RuntimeCost, RefusesMachinesThatCannotBe) {
  EXPECT_REFUSED(Machine({{8, {}}, {3, {}}}, 16), "multiply to 24 and there are 16");
  EXPECT_REFUSED(Machine({{2, {Nanoseconds(0), 0}}}, 2), "must be positive and finite");
  EXPECT_REFUSED(Machine({{2, {Nanoseconds(0), kInfinity}}}, 2), "must be positive and finite");
  EXPECT_REFUSED(Machine({{2, {Nanoseconds(-1), 1}}}, 2), "is negative");
  EXPECT_REFUSED(two_nodes().span_of(RankSet({16})), "not in a machine of 16");
  EXPECT_REFUSED(causal_work(5, 4), "the last of the keys");
  EXPECT_REFUSED(WorkGrid({4, 2}, {1}, {}), "ascending");
  EXPECT_REFUSED(WorkGrid({2, 4}, {1}, {Nanoseconds(1)}), "one a point");
}

// Section 2: q head tokens and the mirrored q tail tokens are q (L + 1) pairs.
TEST(RuntimeCost, CausalWorkOfHeadAndTailIsExact) {
  for (int64_t length : {8, 64, 4096}) {
    for (int64_t q = 1; q <= length / 2; q *= 2) {
      const int64_t head = causal_work(q, q), tail = causal_work(q, length);
      EXPECT_EQ(head + tail, q * (length + 1));
    }
  }
  // A contiguous cut in n: the last share is 2n - 1 times the first, but for the diagonal.
  EXPECT_NEAR(double(causal_work(1024, 4096)) / double(causal_work(1024, 1024)), 7, 0.01);
}

TEST(RuntimeCost, TheGridIsBilinearAndThenAtPeakRate) {
  const WorkGrid grid({10, 20}, {100, 300},
                      {Nanoseconds(100), Nanoseconds(300), Nanoseconds(200), Nanoseconds(800)});
  EXPECT_EQ(grid.time(10, 100), Nanoseconds(100));
  EXPECT_EQ(grid.time(15, 200), Nanoseconds(350));
  EXPECT_EQ(grid.time(20, 300), Nanoseconds(800));
  EXPECT_EQ(grid.time(40, 600), Nanoseconds(3200));
  EXPECT_EQ(grid.time(0, 600), Nanoseconds(0));
}

TEST(RuntimeCost, TheLibraryPredictsWhatItWouldRun) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    const Nanoseconds small = predicted(comm, TaskKind::kAllReduce, Bytes(1024));
    const Nanoseconds large = predicted(comm, TaskKind::kAllReduce, Bytes(1 << 20));
    EXPECT_GT(small, Nanoseconds(0));
    EXPECT_GT(large, small);
    EXPECT_GT(predicted(comm, TaskKind::kAllGather, Bytes(1 << 20)), Nanoseconds(0));
    EXPECT_GT(predicted(comm, TaskKind::kReduceScatter, Bytes(1 << 20)), Nanoseconds(0));
    EXPECT_GT(predicted(comm, TaskKind::kAllToAll, Bytes(1 << 20)), Nanoseconds(0));
    EXPECT_REFUSED(predicted(comm, TaskKind::kSend, Bytes(8)), "message_time()");
    EXPECT_REFUSED(predicted(comm, TaskKind::kAllReduce, Bytes(12)), "multiple");
  });
}

using Numbers = std::vector<int64_t>;

// 3.6 (e), G1: two ranks, each sends everything to its own expert.
TEST(RuntimeCounterSync, GlobalCountsMakeTheLossOfTheWholeBatch) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    CounterSync counters(comm, 2);
    const Numbers own = rank == 0 ? Numbers{10, 0} : Numbers{0, 10};
    const std::vector<double> p = rank == 0 ? std::vector<double>{1, 0} : std::vector<double>{0, 1};
    EXPECT_DOUBLE_EQ(load_balance_loss(own, p), 2.0);
    const Counts counts = counters.wait(counters.post(0, own, 10));
    EXPECT_EQ(counts.sums, (Numbers{10, 10}));
    EXPECT_EQ(counts.of(1)[1], 10);
    EXPECT_DOUBLE_EQ(load_balance_loss(counts.sums, p), 1.0);
    EXPECT_DOUBLE_EQ(load_balance_loss(counts.sums, own, p), 1.02);  // 1 % of the local one
    EXPECT_REFUSED(load_balance_loss(counts.sums, own, p, -1), "0 or more");
    EXPECT_EQ(counters.exchanges(), 1);
  });
}

// 3.6 (e): over two accumulation steps the buffer gives 2.0, then 1.0: the mean is 1.5, not 1.0.
TEST(RuntimeCounterSync, AccumulationIsExactAtItsLastStepOnly) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    CounterSync counters(comm, 2);
    const std::vector<double> first{1, 0}, second{0, 1};
    counters.wait(counters.post(3, Numbers{5, 0}));
    const double one = load_balance_loss(counters.accumulated(3), first);
    counters.wait(counters.post(3, Numbers{0, 5}));
    const double two = load_balance_loss(counters.accumulated(3), second);
    EXPECT_DOUBLE_EQ(one, 2.0);
    EXPECT_DOUBLE_EQ(two, 1.0);
    EXPECT_DOUBLE_EQ((one + two) / 2, 1.5);
    counters.end_step();
    EXPECT_REFUSED(counters.accumulated(3), "no counts in this step");
  });
}

// 3.6 (e): the mean of the ranks' losses is that of the batch, if they hold equal numbers of
// tokens.
TEST(RuntimeCounterSync, TheMeanOfLossesIsTheLossOfTheBatchForEqualTokens) {
  std::mt19937 dice(1);
  for (int i = 0; i < 100; ++i) {
    const bool equal = i % 2 == 0;
    const std::vector<double> tokens =
        equal ? std::vector<double>{64, 64} : std::vector<double>{16, 112};
    Numbers all(4, 0);
    std::vector<std::vector<double>> p(2, std::vector<double>(4, 0));
    std::vector<double> batch(4, 0);
    for (int r = 0; r < 2; ++r) {
      double sum = 0;
      for (double& x : p[size_t(r)]) sum += x = 1 + double(dice() % 100);
      for (int t = 0; t < int(tokens[size_t(r)]); ++t) ++all[dice() % 4];
      for (size_t e = 0; e < 4; ++e) {
        p[size_t(r)][e] /= sum;
        batch[e] += p[size_t(r)][e] * tokens[size_t(r)] / 128;
      }
    }
    const double a = load_balance_loss(all, p[0]), b = load_balance_loss(all, p[1]);
    const double whole = load_balance_loss(all, batch);
    EXPECT_NEAR((a * tokens[0] + b * tokens[1]) / 128, whole, 1e-12);
    if (equal) {
      EXPECT_NEAR((a + b) / 2, whole, 1e-12);
    }
  }
}

TEST(RuntimeCounterSync, OverlapsAndRefusesWhatCannotBe) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    CounterSync counters(comm, 2);
    const CounterTicket a = counters.post(0, Numbers{1, 2}), b = counters.post(1, Numbers{3, 4});
    EXPECT_EQ(counters.wait(b).sums, (Numbers{6, 8}));
    EXPECT_EQ(counters.wait(a).sums, (Numbers{2, 4}));
    EXPECT_REFUSED(counters.wait(a), "was waited for");
    EXPECT_REFUSED(counters.wait({17}), "never given");
    EXPECT_REFUSED(counters.post(0, Numbers{1, 2}, 4), "tokens * k is 4");
    EXPECT_REFUSED(counters.post(0, Numbers{1, -2}), "0 or more");
    EXPECT_REFUSED(counters.post(0, Numbers{1}), "1 counts");
    const CounterTicket open = counters.post(2, Numbers{1, 1});
    counters.end_step();
    EXPECT_REFUSED(counters.wait(open), "its step has ended");
  });
  EXPECT_REFUSED(load_balance_loss(Numbers{0, 0}, std::vector<double>{0.5, 0.5}), "0/0");
  EXPECT_REFUSED(load_balance_loss(Numbers{1}, std::vector<double>{}), "one of each");
}

TEST(RuntimeCounterSync, RanksThatPostOtherLayersAreNamed) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    CounterSync counters(comm, 1);
    const CounterTicket ticket = counters.post(rank, Numbers{1});
    const std::string said = refusal([&] { counters.wait(ticket); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(said.find("post layers in one order"), std::string::npos) << said;
  });
}

/// Attention of one row over keys: scores and values; the parts are runs of keys.
struct Row {
  std::vector<double> scores;
  std::vector<std::vector<double>> values;

  std::vector<double> partial(size_t begin, size_t end) const {  // output, then lse
    std::vector<double> result(values[0].size() + 1, 0);
    double most = -kInfinity, sum = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, scores[i]);
    if (most == -kInfinity) return result.back() = -kInfinity, result;
    for (size_t i = begin; i < end; ++i) sum += std::exp(scores[i] - most);
    for (size_t i = begin; i < end; ++i) {
      for (size_t w = 0; w < values[0].size(); ++w) {
        result[w] += std::exp(scores[i] - most) / sum * values[i][w];
      }
    }
    result.back() = most + std::log(sum);
    return result;
  }
};

void merge(std::vector<double>& acc, const std::vector<double>& in) {
  const size_t width = acc.size() - 1;
  merge_partials(std::span(acc).first(width), std::span(acc).last(1), std::span(in).first(width),
                 std::span(in).last(1));
}

Row random_row(std::mt19937& dice, size_t keys) {
  std::normal_distribution<double> normal(0, 8);
  Row row;
  for (size_t i = 0; i < keys; ++i) {
    row.scores.push_back(dice() % 5 == 0 ? -kInfinity : normal(dice));
    row.values.push_back({normal(dice), normal(dice), normal(dice)});
  }
  return row;
}

// 3.19 (e).
TEST(RuntimePartialSoftmax, AnySplitAndAnyTreeGiveTheWholeSoftmax) {
  std::mt19937 dice(2);
  for (int i = 0; i < 300; ++i) {
    const Row row = random_row(dice, 24);
    std::vector<std::vector<double>> parts;
    for (size_t begin = 0; begin < 24;) {
      const size_t end = std::min<size_t>(24, begin + 1 + dice() % 8);
      parts.push_back(row.partial(begin, end));
      begin = end;
    }
    while (parts.size() > 1) {  // any two, so any tree
      const size_t a = dice() % parts.size();
      std::vector<double> taken = parts[a];
      parts.erase(parts.begin() + std::ptrdiff_t(a));
      merge(parts[dice() % parts.size()], taken);
    }
    const std::vector<double> whole = row.partial(0, 24);
    for (size_t w = 0; w < whole.size(); ++w) EXPECT_NEAR(parts[0][w], whole[w], 1e-12 * 32);
  }
}

TEST(RuntimePartialSoftmax, MaskedRowsGiveZeroAndNaNIsRefused) {
  std::vector<double> none{0, 0, -kInfinity}, some{1, 2, 0.5};
  std::vector<double> acc = none;
  merge(acc, none);
  EXPECT_EQ(acc, none);
  merge(acc, some);
  EXPECT_EQ(acc, some);
  merge(acc, none);
  EXPECT_EQ(acc, some);
  // 0/0 in a kernel: what the row holds does not count, on either side.
  std::vector<double> masked{std::nan(""), kInfinity, -kInfinity};
  merge(acc, masked);
  EXPECT_EQ(acc, some);
  merge(masked, none);
  EXPECT_EQ(masked, none);
  masked[0] = std::nan("");
  merge(masked, some);
  EXPECT_EQ(masked, some);
  const std::vector<double> bad{1, 2, std::nan("")}, huge{1, 2, kInfinity};
  EXPECT_REFUSED(merge(acc, bad), "is nan");
  EXPECT_REFUSED(merge(acc, huge), "is inf");
  std::vector<double> full = huge;
  EXPECT_REFUSED(merge(full, some), "is inf");
  EXPECT_REFUSED(merge_partials(std::span(acc).first(2), std::span(acc).last(1),
                                std::span(some).first(1), std::span(some).last(1)),
                 "one shape");
  EXPECT_REFUSED(merge_rows(tuttiInt32, 4), "use tuttiFloat32");
  EXPECT_REFUSED(merge_rows(tuttiFloat32, 0), "1 or more");
  EXPECT_REFUSED(merge_rows(tuttiBfloat16, 3), "an even number");
}

TEST(RuntimePartialSoftmax, RowsOfHalvesAreMergedInFloatAndRoundedOnce) {
  constexpr int kWidth = 4;
  std::mt19937 dice(11);
  std::normal_distribution<float> draw;
  for (const tuttiDataType_t type : {tuttiBfloat16, tuttiFloat16}) {
    const auto merging = merge_rows(type, kWidth), floats = merge_rows(tuttiFloat32, kWidth);
    const Halves halves(type);
    ASSERT_EQ(merging->element(), Bytes(2 * kWidth + 4));
    ASSERT_EQ(merging->accumulator(), floats->element());
    std::vector<float> accumulators(kWidth + 1), expected(kWidth + 1), row(kWidth + 1);
    merging->clear(accumulators.data(), 1);
    floats->clear(expected.data(), 1);
    std::vector<std::byte> arrived(12);
    for (int part = 0; part < 5; ++part) {
      for (float& value : row) value = draw(dice);
      halves.write(std::span(row).first(kWidth), arrived.data());
      std::memcpy(arrived.data() + 8, &row[kWidth], sizeof(float));
      merging->fold(accumulators.data(), arrived.data(), 1);
      halves.read(arrived.data(), std::span(row).first(kWidth));
      floats->fold(expected.data(), row.data(), 1);
    }
    EXPECT_EQ(accumulators, expected);
    std::vector<std::byte> target(12), rounded(8);
    merging->round(target.data(), accumulators.data(), 1);
    halves.write(std::span(expected).first(kWidth), rounded.data());
    EXPECT_EQ(std::memcmp(target.data(), rounded.data(), 8), 0);
    EXPECT_EQ(std::memcmp(target.data() + 8, &expected[kWidth], 4), 0);
  }
}

// Partials of all ranks come together on the rows' owners by an exchange, in rank order.
TEST(RuntimePartialSoftmax, AnExchangeMergesTheRanksPartials) {
  constexpr int kRanks = 4, kRows = 8;
  std::mt19937 dice(9);
  std::vector<Row> rows;
  for (int r = 0; r < kRows; ++r) rows.push_back(random_row(dice, 32));
  const auto merging = merge_rows(tuttiFloat64, 3);
  const Resharding plan = reverse(reshard(even(kRows, kRanks), replicated(kRows, kRanks)));
  run_ranks(kRanks, [&](tuttiComm_t comm, int rank) {
    std::vector<double> mine, got(4 * kRows / kRanks);
    for (const Row& row : rows) {
      const auto part = row.partial(size_t(rank) * 8, size_t(rank) * 8 + 8);
      mine.insert(mine.end(), part.begin(), part.end());
    }
    Exchange exchange(plan, Bytes(4 * sizeof(double)), merging.get());
    EXPECT_EQ(exchange.way(), ExchangeWay::kRounds);
    exchange.run(comm, mine.data(), got.data());
    for (int r = 0; r < kRows / kRanks; ++r) {
      const Row& row = rows[size_t(rank * kRows / kRanks + r)];
      std::vector<double> expected = row.partial(0, 0);
      for (size_t part = 0; part < kRanks; ++part)
        merge(expected, row.partial(8 * part, 8 * part + 8));
      EXPECT_EQ(std::vector<double>(got.begin() + 4 * r, got.begin() + 4 * r + 4), expected);
    }
  });
}

}  // namespace
}  // namespace tutti::runtime
