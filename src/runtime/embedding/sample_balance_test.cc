// Deals of samples of unequal length, and the shuffle that carries them out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/sample_balance.h"

namespace tutti::runtime {
namespace {

using Lengths = std::vector<int64_t>;

const Lengths kSkewed = {21000, 16000, 9000, 8000, 4000, 3000, 2000, 1500,
                         900,   700,   500,  400,  300,  200,  100,  50};

// FreeScale's example: 1.39 times the mean instead of 3.19.
TEST(RuntimeSampleBalance, TheZigZagOfTheExample) {
  const SampleDeal deal = deal_equally(kSkewed, 4);
  EXPECT_EQ(deal.loads, (Lengths{23450, 18800, 12700, 12700}));
  EXPECT_EQ(deal.counts, (Lengths{4, 4, 4, 4}));
  EXPECT_NEAR(deal.max_over_mean, 1.39, 0.005);
  std::vector<int> in_order;
  for (int s = 0; s < 16; ++s) in_order.push_back(s / 4);
  const SampleDeal before = deal_as_told(kSkewed, in_order, 4);
  EXPECT_EQ(before.loads, (Lengths{54000, 10500, 2500, 650}));
  EXPECT_NEAR(before.max_over_mean, 3.19, 0.005);
}

TEST(RuntimeSampleBalance, DealsKeepTheirPropertiesForAnyLengths) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 6);
    Lengths lengths(static_cast<size_t>(ranks) * (1 + random() % 9));
    for (int64_t& length : lengths) length = random() % 5 == 0 ? 0 : random() % 10000;
    const double exponent = round % 3;
    for (const SampleDeal& deal :
         {deal_equally(lengths, ranks), deal_by_work(lengths, exponent, ranks)}) {
      const int64_t largest = *std::max_element(lengths.begin(), lengths.end());
      EXPECT_GE(*std::max_element(deal.loads.begin(), deal.loads.end()), largest);
      EXPECT_EQ(std::accumulate(deal.counts.begin(), deal.counts.end(), int64_t{0}),
                std::ssize(lengths));
      EXPECT_GT(*std::min_element(deal.counts.begin(), deal.counts.end()), 0);
    }
    const SampleDeal runs = deal_by_work(lengths, exponent, ranks);
    EXPECT_TRUE(std::is_sorted(runs.rank_of.begin(), runs.rank_of.end()));
    EXPECT_EQ(deal_by_work(lengths, exponent, ranks), runs);
  }
}

/// The least possible largest work of runs, by trying every cut.
double least_of_all(const std::vector<double>& works, size_t begin, int ranks) {
  if (ranks == 1) return std::accumulate(works.begin() + int64_t(begin), works.end(), 0.0);
  double best = INFINITY, sum = 0;
  for (size_t end = begin + 1; end + size_t(ranks) - 1 <= works.size(); ++end) {
    sum += works[end - 1];
    best = std::min(best, std::max(sum, least_of_all(works, end, ranks - 1)));
  }
  return best;
}

TEST(RuntimeSampleBalance, RunsHaveTheLeastLargestWork) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 1 + static_cast<int>(random() % 4);
    Lengths lengths(static_cast<size_t>(ranks) + random() % 8);
    for (int64_t& length : lengths) length = random() % 100;
    const SampleDeal deal = deal_by_work(lengths, 2, ranks);
    std::vector<double> works, sums(static_cast<size_t>(ranks));
    for (size_t s = 0; s < lengths.size(); ++s) {
      works.push_back(static_cast<double>(lengths[s] * lengths[s]));
      sums[static_cast<size_t>(deal.rank_of[s])] += works[s];
    }
    EXPECT_EQ(*std::max_element(sums.begin(), sums.end()), least_of_all(works, 0, ranks));
  }
}

TEST(RuntimeSampleBalance, LossesAreWeightedByBatches) {
  const SampleDeal deal = deal_by_work(Lengths{100, 1, 1, 1}, 1, 2);
  EXPECT_EQ(deal.counts, (Lengths{1, 3}));
  EXPECT_EQ(loss_weights(deal), (std::vector<double>{0.5, 1.5}));
}

TEST(RuntimeSampleBalance, TheExponentIsReadFromTimes) {
  const SampleDeal deal = deal_equally(kSkewed, 4);
  for (const double exponent : {1.0, 1.5, 2.0}) {
    std::vector<double> times(4);
    for (size_t s = 0; s < kSkewed.size(); ++s) {
      times[size_t(deal.rank_of[s])] += 3e-6 * std::pow(double(kSkewed[s]), exponent);
    }
    EXPECT_NEAR(fitted_exponent(kSkewed, deal, times), exponent, 0.01);
  }
}

// Every element carries the name of its sample and its place in it.
TEST(RuntimeSampleBalance, TheShuffleBringsEverySampleOnce) {
  constexpr int kRanks = 4;
  run_ranks(kRanks, [](tuttiComm_t comm, int rank) {
    Lengths ids, lengths;
    std::vector<int32_t> source;
    for (int64_t s = 0; s < 4; ++s) {
      ids.push_back(100 * rank + s);
      lengths.push_back(rank == 2 ? 0 : (rank + 1) * 7 * s);
      for (int64_t i = 0; i < lengths.back(); ++i) {
        source.push_back(static_cast<int32_t>(ids.back() * 1000 + i));
      }
    }
    const SampleList all = gather_samples(comm, ids, lengths);
    for (const bool by_work : {false, true}) {
      const SampleDeal deal =
          by_work ? deal_by_work(all.lengths, 1.5, kRanks) : deal_equally(all.lengths, kRanks);
      std::vector<int32_t> expected;
      for (size_t s = 0; s < all.ids.size(); ++s) {
        for (int64_t i = 0; deal.rank_of[s] == rank && i < all.lengths[s]; ++i) {
          expected.push_back(static_cast<int32_t>(all.ids[s] * 1000 + i));
        }
      }
      Exchange exchange(shuffle(all, deal), Bytes(4));
      std::vector<int32_t> target(size_t(deal.loads[size_t(rank)]), -1);
      exchange.run(comm, source.data(), target.data());
      EXPECT_EQ(target, expected);
    }
  });
}

TEST(RuntimeSampleBalance, RefusesSamplesThatCannotBe) {
  EXPECT_REFUSED(deal_equally(Lengths{1, 2, 3}, 2), "cannot be dealt equally to 2");
  EXPECT_REFUSED(deal_equally(Lengths{}, 2), "0 samples");
  EXPECT_REFUSED(deal_equally(Lengths{1, -1}, 2), "sample 1 has length -1");
  EXPECT_REFUSED(deal_by_work(Lengths{1}, 1, 2), "one would get none");
  EXPECT_REFUSED(deal_by_work(Lengths{1, 2}, -1, 2), "give 0 to 3");
  EXPECT_REFUSED(deal_as_told(Lengths{1, 2}, std::vector<int>{0}, 2), "give every sample one");
  EXPECT_REFUSED(deal_as_told(Lengths{1, 2}, std::vector<int>{0, 2}, 2), "goes to rank 2 of 2");
  EXPECT_REFUSED(deal_as_told(Lengths{1, 2}, std::vector<int>{0, 0}, 2), "rank 1 gets no sample");
  const SampleDeal empty = deal_as_told(Lengths{1, 2}, std::vector<int>{0, 0}, 2, true);
  EXPECT_EQ(loss_weights(empty), (std::vector<double>{2, 0}));
  EXPECT_REFUSED(fitted_exponent(Lengths{1, 2}, empty, std::vector<double>{1}), "1 times");
  EXPECT_REFUSED(fitted_exponent(Lengths{1, 2}, empty, std::vector<double>{1, 0}), "above 0");
  EXPECT_REFUSED(shuffle({{1}, {1}, {0}}, empty), "2 are dealt");
}

TEST(RuntimeSampleBalance, RefusesASampleOfTwoRanksOnAllRanks) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    EXPECT_REFUSED(gather_samples(comm, Lengths{5}, Lengths{3 + rank}),
                   "sample 5 is on rank 0 with length 3 and on rank 1 with length 4");
    const std::string said =
        refusal([&] { gather_samples(comm, Lengths{rank}, Lengths{rank == 1 ? -3 : 3}); });
    EXPECT_NE(said.find(rank == 1 ? "has length -3" : "samples of rank 1 were refused"),
              std::string::npos)
        << said;
  });
}

}  // namespace
}  // namespace tutti::runtime
