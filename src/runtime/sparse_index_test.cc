// The index of sparse attention: training_systems 3.9.
#include "tutti/runtime/sparse_index.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"

namespace tutti::runtime {
namespace {

using Numbers = std::vector<int64_t>;

TEST(RuntimeSparseIndex, KeepsTheFewestThatReachTheTarget) {
  const std::vector<double> mass{1, 5, 0, 2, 2};
  EXPECT_EQ(top_mass(mass, 0.5), Numbers({1}));
  EXPECT_EQ(top_mass(mass, 0.7), Numbers({1, 3}));  // of equal ones the first
  EXPECT_EQ(top_mass(mass, 0.9), Numbers({1, 3, 4}));
  EXPECT_EQ(top_mass(mass, 1), Numbers({0, 1, 3, 4}));
  EXPECT_EQ(top_mass(std::vector<double>(3, 0.0), 1), Numbers());
  EXPECT_EQ(top_mass({}, 1), Numbers());
}

// Against all subsets: none with fewer entries reaches the target.
TEST(RuntimeSparseIndex, NoSmallerSetReachesIt) {
  std::mt19937 dice(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> mass(1 + dice() % 9);
    for (double& m : mass) m = static_cast<double>(dice() % 16);
    const double target = static_cast<double>(1 + dice() % 100) / 100;
    const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
    const Numbers kept = top_mass(mass, target);
    double reached = 0;
    for (const int64_t i : kept) reached += mass[size_t(i)];
    EXPECT_GE(reached, target * total - 1e-9);
    for (unsigned set = 0; set < 1u << mass.size(); ++set) {
      if (size_t(std::popcount(set)) >= kept.size()) continue;
      double sum = 0;
      for (size_t i = 0; i < mass.size(); ++i) sum += set >> i & 1 ? mass[i] : 0;
      EXPECT_LT(sum, target * total);
    }
  }
}

TEST(RuntimeSparseIndex, AllRanksKeepTheSame) {
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<double> verticals(64), slashes(17);
    std::vector<std::vector<double>> parts;
    for (int r = 0; r < ranks; ++r) {
      std::mt19937 dice(unsigned(r) + 9);
      std::vector<double> part(81);
      for (double& m : part) m = std::ldexp(double(dice() % 1000), -int(dice() % 20));
      for (size_t i = 0; i < 64; ++i) verticals[i] += part[i];
      for (size_t i = 0; i < 17; ++i) slashes[i] += part[64 + i];
      parts.push_back(part);
    }
    const SparseIndex expected{top_mass(verticals, 0.8), top_mass(slashes, 0.8)};
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      const std::span<const double> own(parts[size_t(rank)]);
      EXPECT_EQ(exchange_index(comm, own.first(64), own.subspan(64), 0.8), expected);
    });
  }
}

TEST(RuntimeSparseIndex, RefusesWhatCannotBe) {
  const std::vector<double> mass{1, 2};
  EXPECT_REFUSED(top_mass(mass, 0), "the target is 0");
  EXPECT_REFUSED(top_mass(mass, 1.5), "at most 1");
  EXPECT_REFUSED(top_mass(std::vector<double>{1, -1}, 0.5), "the mass of 1 is -1");
  EXPECT_REFUSED(top_mass(std::vector<double>{std::numeric_limits<double>::quiet_NaN()}, 0.5),
                 "finite");
  EXPECT_REFUSED(expect_index(Numbers{0, 2}, 2), "there are 0 to 1");
  EXPECT_REFUSED(expect_index(Numbers{1, 1}, 2), "numbers ascend");
  expect_index(Numbers{0, 1}, 2);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    try {
      exchange_index(comm, mass, mass, rank == 0 ? 0.5 : 0.6);
      ADD_FAILURE() << "ranks with different targets";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRanksDiffer);
    }
  });
}

}  // namespace
}  // namespace tutti::runtime
