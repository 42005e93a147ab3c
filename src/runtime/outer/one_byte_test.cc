// Just One Byte and subspaces over real ranks. Sections are those of the list of systems (19, 20).
#include "tutti/runtime/outer/one_byte.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "src/codecs/codecs_test.h"
#include "src/runtime/crew_test.h"
#include "src/runtime/outer/inner_test.h"
#include "tutti/runtime/outer/subspace.h"

namespace tutti::runtime {
namespace {

using codecs::Values;
using outer_test::start;

double quadratic(std::span<const float> params, int64_t /*step*/, int sample) {
  double loss = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    const double off = params[i] - 0.1 * static_cast<double>(i % 7) - 0.01 * sample;
    loss += off * off / 2;
  }
  return loss;
}

TEST(OneByte, DirectionsHaveMeanZeroAndVarianceOne) {
  Values z(200'000, 0.0f), again(10, 0.0f);
  add_direction(z, {1, 2, 3, 4}, 1);
  double sum = 0, squares = 0;
  for (const float x : z) sum += x, squares += double{x} * x;
  EXPECT_NEAR(sum / 200'000, 0, 0.01);
  EXPECT_NEAR(squares / 200'000, 1, 0.01);
  add_direction(again, {1, 2, 3, 4}, 1);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), z.begin()));
  add_direction(again, {1, 2, 3, 5}, 1);
  EXPECT_FALSE(std::equal(again.begin(), again.end(), z.begin()));
}

// Section 20: over many directions the estimate is the gradient, within 3 sigma.
TEST(OneByte, Section20EstimateIsUnbiased) {
  const Values x = start(12);
  constexpr int kDraws = 20'000;
  std::vector<double> sums(12, 0.0), squares(12, 0.0);
  for (int draw = 0; draw < kDraws; ++draw) {
    Values z(12, 0.0f), above = x, below = x;
    const DirectionSeed seed{5, draw, 0, 0};
    add_direction(z, seed, 1);
    add_direction(above, seed, 0.01f);
    add_direction(below, seed, -0.01f);
    const double slope = (quadratic(above, 0, 0) - quadratic(below, 0, 0)) / 0.02;
    for (size_t i = 0; i < 12; ++i) {
      sums[i] += slope * z[i];
      squares[i] += slope * z[i] * slope * z[i];
    }
  }
  for (size_t i = 0; i < 12; ++i) {
    const double mean = sums[i] / kDraws, gradient = x[i] - 0.1 * static_cast<double>(i % 7);
    const double sigma = std::sqrt((squares[i] / kDraws - mean * mean) / kDraws);
    EXPECT_NEAR(mean, gradient, 3.5 * sigma) << i;
  }
}

TEST(OneByte, Section20OrderDoesNotMatterAndRejections) {
  std::vector<SlopeMessage> messages;
  for (int m = 0; m < 4; ++m) {
    for (int s = 0; s < 3; ++s) {
      messages.push_back({9, m, s, encode_slope(static_cast<float>(m - s) + 0.5f)});
    }
  }
  const ReplaySpec spec{.seed = 1, .iteration = 9, .machines = 4, .rate = 0.01f};
  const Values first = start(100);
  Values expected = first;
  replay(messages, spec, expected);
  std::mt19937_64 random(2);
  for (int round = 0; round < 10; ++round) {
    std::shuffle(messages.begin(), messages.end(), random);
    Values params = first;
    replay(messages, spec, params);
    EXPECT_TRUE(codecs::same_bits(params, expected));
  }
  const auto with = [&](SlopeMessage extra) {
    std::vector<SlopeMessage> more = messages;
    more.push_back(extra);
    Values params = first;
    const std::string said = refusal([&] { replay(more, spec, params); });
    EXPECT_EQ(params, first);
    return said;
  };
  EXPECT_NE(with({9, 2, 1, 5}).find("occurs twice"), std::string::npos);
  EXPECT_NE(with({8, 2, 7, 5}).find("of iteration 8"), std::string::npos);
  EXPECT_NE(with({9, 4, 0, 5}).find("there are machines 0 to 3"), std::string::npos);
  EXPECT_NE(with({9, 3, 7, 0x80}).find("holds no number"), std::string::npos);
  EXPECT_REFUSED(encode_slope(std::nanf("")), "NaN or infinite");
  EXPECT_REFUSED(encode_slope(INFINITY), "NaN or infinite");
}

// Section 20: machines that apply the same set are equal to the bit; what is sent is one byte a
// sample.
TEST(OneByte, Section20LearnsWithOneByteASample) {
  std::vector<uint64_t> hashes(3);
  run_ranks(3, [&](tuttiComm_t comm, int rank) {
    Values params = start(20);
    const double before = quadratic(params, 0, 0);
    OneByte optimizer({comm, 0}, params, {.seed = 1, .samples = 2, .rate = 0.05f}, quadratic);
    for (int64_t t = 1; t <= 200; ++t) EXPECT_EQ(optimizer.boundary(t, params).applied, 0);
    EXPECT_EQ(optimizer.bytes_sent(), 200 * 2 * 2);  // to each of two others
    EXPECT_LT(quadratic(params, 0, 0), before / 20);
    hashes[static_cast<size_t>(rank)] = hash_of(params);
  });
  EXPECT_EQ(hashes, std::vector<uint64_t>(3, hashes[0]));
}

// Section 20: three ranks, of which one joins at step 50 by a transfer of state: equal at step 100.
TEST(OneByte, Section20ARankJoins) {
  std::vector<uint64_t> hashes(3);
  run_ranks(3, [&](tuttiComm_t comm, int rank) {
    tuttiComm_t two = nullptr;
    const int color = rank < 2 ? 0 : TUTTI_SPLIT_NOCOLOR;
    ASSERT_EQ(tuttiCommSplit(comm, color, rank, &two, nullptr), tuttiSuccess);
    Values params(20, 0.0f);
    const OneByteSpec spec{.seed = 3, .rate = 0.02f, .check_every = 25};
    int64_t step = 0;
    if (rank < 2) {
      params = start(20);
      OneByte optimizer({two, 0}, params, spec, quadratic);
      while (step < 50) optimizer.boundary(++step, params);
    }
    broadcast_state(comm, 0, params, step);
    EXPECT_EQ(step, 50);
    OneByte optimizer({comm, 1}, params, spec, quadratic);
    while (step < 100) optimizer.boundary(++step, params);
    hashes[static_cast<size_t>(rank)] = hash_of(params);
    if (two != nullptr) {
      EXPECT_EQ(tuttiCommDestroy(two), tuttiSuccess);
    }
  });
  EXPECT_EQ(hashes, std::vector<uint64_t>(3, hashes[0]));
}

TEST(OneByte, ARankWithoutASlopeIsLeftOutAndDriftIsFound) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    Values params = start(8);
    OneByte optimizer({comm, 0}, params, {.check_every = 3}, [&](auto p, int64_t t, int s) {
      return rank == 1 && t == 1 ? std::nan("") : quadratic(p, t, s);
    });
    EXPECT_EQ(optimizer.boundary(1, params).skipped, "rank 1 had no slope for sample 0");
    EXPECT_EQ(optimizer.boundary(2, params, rank == 1).skipped, "rank 0 had no slope for sample 0");
    if (rank == 0) params[5] += 1;
    const std::string said =
        refusal([&] { optimizer.boundary(3, params); }, ErrorKind::kRanksDiffer);
    EXPECT_NE(said.find("the hash of the parameters"), std::string::npos);
  });
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    const std::string said = refusal(
        [&] {
          OneByte({comm, rank}, start(4), {}, quadratic);
        },
        ErrorKind::kRanksDiffer);
    EXPECT_NE(said.find("its seed and epoch, too"), std::string::npos);
    Values params = start(4);
    EXPECT_REFUSED(OneByte({comm, 0}, params, {.samples = 0}, quadratic), "give 1 or more");
    EXPECT_REFUSED(OneByte({comm, 0}, params, {}, nullptr), "there is no loss");
    OneByte optimizer({comm, 0}, params, {}, [&](auto p, int64_t t, int s) {
      Values other = start(4);
      EXPECT_REFUSED(optimizer.boundary(2, other), "while another call of it runs");
      return quadratic(p, t, s);
    });
    optimizer.boundary(1, params);
  });
}

// ---- subspaces ----

/// Orthonormal columns, by Gram and Schmidt.
std::vector<float> some_basis(int64_t d, int64_t k) {
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> columns;
  while (std::ssize(columns) < k) {
    std::vector<double> column(static_cast<size_t>(d));
    for (double& x : column) x = normal(random);
    for (int pass = 0; pass < 2; ++pass) {
      for (const auto& other : columns) {
        double product = 0;
        for (size_t i = 0; i < column.size(); ++i) product += column[i] * other[i];
        for (size_t i = 0; i < column.size(); ++i) column[i] -= product * other[i];
      }
    }
    double norm = 0;
    for (const double x : column) norm += x * x;
    for (double& x : column) x /= std::sqrt(norm);
    columns.push_back(column);
  }
  std::vector<float> basis;
  for (size_t i = 0; i < static_cast<size_t>(d); ++i) {
    for (const auto& column : columns) basis.push_back(static_cast<float>(column[i]));
  }
  return basis;
}

// Section 19: x in the span of U comes through; else the error is |(I - U U^T) x|.
TEST(Subspaces, Section19WhatIsInTheSpanComesThrough) {
  const Subspace subspace(some_basis(24, 6), 24, 6, 0);
  const Values inside = subspace.rebuild(Values{1, -2, 3, 0.5f, 0, 4, 1, 1, 1, 1, 1, 1});
  const Values back = subspace.rebuild(subspace.project(inside));
  EXPECT_TRUE(outer_test::same(back, inside, 1e-5f));
  EXPECT_EQ(subspace.project(inside).size() * 4, inside.size());  // k / d of the numbers
  const Values x = start(24), got = subspace.rebuild(subspace.project(x));
  const std::vector<float> u = some_basis(24, 6);
  double error = 0, expected = 0;
  for (size_t i = 0; i < 24; ++i) {
    double rest = x[i];
    for (size_t j = 0; j < 6; ++j) {
      double product = 0;
      for (size_t n = 0; n < 24; ++n) product += double{u[n * 6 + j]} * x[n];
      rest -= u[i * 6 + j] * product;
    }
    expected += rest * rest;
    error += (double{x[i]} - got[i]) * (double{x[i]} - got[i]);
  }
  EXPECT_NEAR(std::sqrt(error), std::sqrt(expected), 1e-5);
}

TEST(Subspaces, StagesSendAndOtherBasesAreRefused) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    const Subspace first(some_basis(16, 4), 16, 4, 0), second(some_basis(16, 4), 16, 4, 1);
    const Values rows = first.rebuild(Values{1, 2, 3, 4, 5, 6, 7, 8});
    if (rank == 0) {
      first.send(comm, 1, rows);
      second.send(comm, 1, rows);
      first.send(comm, 1, rows);
      Values bad = rows;
      bad[3] = std::nanf("");
      EXPECT_REFUSED(first.send(comm, 1, bad), "leave this step out");
    } else {
      EXPECT_TRUE(outer_test::same(first.receive(comm, 0, 2), rows, 1e-5f));
      const std::string said = refusal([&] { first.receive(comm, 0, 2); }, ErrorKind::kRanksDiffer);
      EXPECT_NE(said.find("a basis of version 1"), std::string::npos);
      EXPECT_TRUE(outer_test::same(first.receive(comm, 0, 2), rows, 1e-5f));
    }
  });
  std::vector<float> crooked = some_basis(16, 4);
  crooked[5] += 0.001f;
  EXPECT_REFUSED(Subspace(crooked, 16, 4, 0), "orthonormalise the basis");
  EXPECT_REFUSED(Subspace(some_basis(16, 4), 16, 3, 0), "give 16 rows of 3");
  EXPECT_REFUSED(Subspace(some_basis(16, 4), 4, 16, 0), "at most all");
}

}  // namespace
}  // namespace tutti::runtime
