// Narrow dispatch and fused low-rank all-reduces: training_systems 3.4 (B1), 3.7 (O1).
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"
#include "src/runtime/halves.h"
#include "tutti/runtime/narrow.h"

namespace tutti::runtime {
namespace {

double gib(Bytes bytes) { return double(bytes.value) / (1 << 30); }

// 3.4 (e), B1; the bytes on the wire are counted in moe_test.cc.
TEST(RuntimeNarrow, DispatchVolumesAreThePapers) {
  EXPECT_DOUBLE_EQ(gib(dispatch_volume({256, 2048, 24, 2048, 8, 32})), 1488.0);
  EXPECT_DOUBLE_EQ(gib(dispatch_volume({256, 2048, 24, narrow_width(2048, 1, 4, 16), 8, 32})),
                   372.0);
  EXPECT_REFUSED(narrow_width(2048, 1, 3, 1), "change the fraction");
  EXPECT_REFUSED(narrow_width(2048, 1, 4, 100), "no multiple of 100");
  EXPECT_REFUSED(narrow_width(2048, 0, 4, 1), "above 0 and at most 1");
  EXPECT_REFUSED(narrow_width(2048, 5, 4, 1), "above 0 and at most 1");
  EXPECT_EQ(dispatch_volume({1, 1, 1, 1, 1, 3}), Bytes(5));  // of 16 / 3
  EXPECT_REFUSED(dispatch_volume({1, 1, 1, 1, 1, 0}), "give 1 or more");
  EXPECT_REFUSED(dispatch_volume({1, 1, 0, 1, 1, 1}), "1 or more");
}

// 3.7 (e), O1.
TEST(RuntimeLowRank, BlockVolumesAreThePapers) {
  const auto rounded = [](Bytes bytes) { return std::round(gib(bytes) * 1e4) / 1e4; };
  const BlockVolumes v = block_volumes({4, 4096, 4096, 11008, 1024}, 4);
  EXPECT_EQ(rounded(v.full_rank), 0.2500);
  EXPECT_EQ(rounded(v.low_rank), 1.2969);
  EXPECT_EQ(rounded(v.bottleneck), 0.2188);
  EXPECT_EQ(std::round(100 * gib(v.low_rank) / gib(v.bottleneck)) / 100, 5.93);
  EXPECT_DOUBLE_EQ(gib(v.full_rank) / gib(v.bottleneck), 8.0 / 7);
  const BlockVolumes wide = block_volumes({4, 4096, 4096, 4 * 4096, 1024}, 4);
  EXPECT_DOUBLE_EQ(gib(wide.low_rank) / gib(wide.full_rank), 6.5);
  EXPECT_REFUSED(block_volumes({1, 1, 10, 1, 1}, 4), "not a multiple of 4");
  EXPECT_REFUSED(block_volumes({1, 1, 8, 1, 9}, 4), "wider than the hidden size 8");
}

/// z = rms_norm(x) W of one token, W of width x rank; columns of x are spread over ranks.
std::vector<double> norm_and_project(const std::vector<double>& x, int rank, int ranks, size_t r,
                                     double& squares) {
  const size_t share = x.size() / size_t(ranks);
  std::vector<double> z(r, 0);
  for (size_t i = size_t(rank) * share; i < size_t(rank + 1) * share; ++i) {
    squares += x[i] * x[i];
    for (size_t j = 0; j < r; ++j) z[j] += x[i] * std::sin(double(i * r + j));
  }
  return z;
}

// 3.7 (e): the sum of squares goes along, in its own type; the norm is that of one process.
TEST(RuntimeLowRank, OnlineNormWithFusedStatisticsIsThatOfOneProcess) {
  constexpr size_t kRank = 6;
  std::vector<double> x(48);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::cos(double(i)) * 3;
  const auto finished = [&](std::vector<double> z, double squares) {
    for (double& value : z) value /= std::sqrt(squares / double(x.size()) + 1e-6);
    return z;
  };
  double all = 0;
  const std::vector<double> projected = norm_and_project(x, 0, 1, kRank, all);
  const std::vector<double> expected = finished(projected, all);
  for (const int ranks : {2, 4}) {
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      double squares = 0;
      std::vector<double> z = norm_and_project(x, rank, ranks, kRank, squares);
      float other[3] = {1, 2, float(rank)};
      const SumPart parts[] = {
          {z.data(), kRank, tuttiFloat64}, {&squares, 1, tuttiFloat64}, {other, 3, tuttiFloat32}};
      all_reduce_together(comm, parts, true);
      const std::vector<double> got = finished(z, squares);
      for (size_t j = 0; j < kRank; ++j) EXPECT_NEAR(got[j], expected[j], 1e-12 * 16);
      EXPECT_EQ(other[1], 2.0f * float(ranks));
      EXPECT_REFUSED(all_reduce_together(comm, {}), "at least one part");
    });
  }
}

// 3.7 (e): online RMSNorm over columns of several ranks, with the sum of squares in the same
// collective as the partial product, equals one process.
TEST(RuntimeFusedSum, AnOnlineNormNeedsNoCollectiveOfItsOwn) {
  constexpr int kColumns = 12, kWidth = 5;
  std::mt19937 dice(4);
  std::normal_distribution<double> draw;
  std::vector<double> x(kColumns), weights(kColumns * kWidth), expected(kWidth, 0);
  for (double& value : x) value = draw(dice);
  for (double& value : weights) value = draw(dice);
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (int c = 0; c < kColumns; ++c) {
    for (int w = 0; w < kWidth; ++w) {
      expected[size_t(w)] += x[size_t(c)] * weights[size_t(c * kWidth + w)];
    }
  }
  for (double& value : expected) value /= std::sqrt(squares / kColumns + 1e-6);
  for (const int ranks : {2, 3, 4}) {
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      std::vector<double> z(kWidth, 0);
      double s = 0;
      for (int c = rank * kColumns / ranks; c < (rank + 1) * kColumns / ranks; ++c) {
        s += x[size_t(c)] * x[size_t(c)];
        for (int w = 0; w < kWidth; ++w) {
          z[size_t(w)] += x[size_t(c)] * weights[size_t(c * kWidth + w)];
        }
      }
      FusedSum sum(comm, tuttiFloat64);
      const SumPart parts[] = {{z.data(), z.size(), tuttiFloat64}, {&s, 1, tuttiFloat64}};
      sum.run(parts);
      EXPECT_EQ(sum.collectives(), 1);
      for (int w = 0; w < kWidth; ++w) {
        EXPECT_NEAR(z[size_t(w)] / std::sqrt(s / kColumns + 1e-6), expected[size_t(w)], 1e-12);
      }
    });
  }
}

TEST(RuntimeFusedSum, HalvesAreAddedInFloatBesideTheirStatistics) {
  const Halves halves(tuttiBfloat16);
  run_ranks(4, [&](tuttiComm_t comm, int rank) {
    const std::vector<float> mine{rank == 0 ? 256.F : 1.F, 2.F};
    std::vector<uint16_t> z(2);
    halves.write(mine, z.data());
    float s = 0.1F * float(rank + 1);
    FusedSum sum(comm);
    const SumPart parts[] = {{z.data(), 2, tuttiBfloat16}, {&s, 1, tuttiFloat32}, {nullptr, 0}};
    sum.run(parts, true);
    std::vector<float> got(2);
    halves.read(z.data(), got);
    EXPECT_EQ(got, (std::vector<float>{260, 8}));
    EXPECT_NEAR(s, 1.0F, 1e-6);
    double wide = 1;
    const SumPart mixed[] = {{z.data(), 2, tuttiBfloat16}, {&wide, 1, tuttiFloat64}};
    EXPECT_REFUSED(sum.run(mixed), "does not go over a wire");
    EXPECT_REFUSED(FusedSum(comm, tuttiInt32), "use tuttiFloat32");
  });
}

}  // namespace
}  // namespace tutti::runtime
