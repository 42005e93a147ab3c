// The reference is checked against values written down from the formats' definitions, because
// everything else is checked against the reference.
#include "tests/reference/reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace tutti::reference {
namespace {

TEST(Number, KnownValues) {
  EXPECT_EQ(decode(tuttiFloat16, 0x3c00), 1.0L);
  EXPECT_EQ(decode(tuttiFloat16, 0x7bff), 65504.0L);
  EXPECT_EQ(decode(tuttiFloat16, 0x0001), std::ldexp(1.0L, -24));
  EXPECT_EQ(decode(tuttiBfloat16, 0x3f80), 1.0L);
  EXPECT_EQ(decode(tuttiBfloat16, 0xc0a0), -5.0L);
  EXPECT_EQ(decode(tuttiFloat8e4m3, 0x38), 1.0L);
  EXPECT_EQ(decode(tuttiFloat8e4m3, 0x7e), 448.0L);
  EXPECT_EQ(decode(tuttiFloat8e4m3, 0x01), std::ldexp(1.0L, -9));
  EXPECT_TRUE(std::isnan(decode(tuttiFloat8e4m3, 0x7f)));
  EXPECT_EQ(decode(tuttiFloat8e5m2, 0x3c), 1.0L);
  EXPECT_EQ(decode(tuttiFloat8e5m2, 0x7b), 57344.0L);
  EXPECT_TRUE(std::isinf(decode(tuttiFloat8e5m2, 0x7c)));
  EXPECT_EQ(decode(tuttiInt8, 0xff), -1.0L);
  EXPECT_EQ(decode(tuttiUint8, 0xff), 255.0L);
}

TEST(Number, EveryNarrowValueSurvivesTheRoundTrip) {
  for (tuttiDataType_t type : {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2}) {
    const uint64_t values = uint64_t{1} << (8 * size_of(type));
    for (uint64_t bits = 0; bits < values; ++bits) {
      const long double value = decode(type, bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode(type, value), bits) << name_of(type);
    }
  }
}

TEST(Number, WideFloatsAgreeWithTheMachine) {
  uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<uint32_t>(state >> 32);
    float single;
    std::memcpy(&single, &bits, sizeof single);
    if (!std::isfinite(single)) continue;
    ASSERT_EQ(decode(tuttiFloat32, bits), static_cast<long double>(single));
    const double fine = static_cast<double>(single) * 1.0000001;
    const auto rounded = static_cast<float>(fine);
    uint32_t rounded_bits;
    std::memcpy(&rounded_bits, &rounded, sizeof rounded_bits);
    ASSERT_EQ(encode(tuttiFloat32, fine), rounded_bits);
    uint64_t double_bits;
    std::memcpy(&double_bits, &fine, sizeof double_bits);
    ASSERT_EQ(encode(tuttiFloat64, fine), double_bits);
  }
}

TEST(Number, TiesGoToEven) {
  EXPECT_EQ(encode(tuttiBfloat16, 257.0L), encode(tuttiBfloat16, 256.0L));
  EXPECT_EQ(encode(tuttiBfloat16, 259.0L), encode(tuttiBfloat16, 260.0L));
  EXPECT_EQ(encode(tuttiFloat16, 2049.0L), encode(tuttiFloat16, 2048.0L));
  EXPECT_EQ(encode(tuttiFloat8e4m3, 17.0L), encode(tuttiFloat8e4m3, 16.0L));
  EXPECT_EQ(encode(tuttiFloat8e4m3, std::ldexp(1.0L, -10)), 0u);
  EXPECT_EQ(encode(tuttiFloat8e4m3, std::ldexp(1.5L, -10)), 1u);
}

uint64_t simple(int rank, uint64_t index) { return static_cast<uint64_t>(rank) * 100 + index; }

TEST(Reference, MovesBlocks) {
  Problem p{.type = tuttiInt32, .ranks = 3, .root = 2, .count = 2};
  const auto row = [&](Collective collective, int rank) {
    p.collective = collective;
    std::vector<uint64_t> bits;
    for (uint64_t i = 0; i < output_elements(p, rank); ++i) {
      bits.push_back(expected(p, simple, rank, i).bits);
    }
    return bits;
  };
  EXPECT_EQ(row(Collective::kAllGather, 1), (std::vector<uint64_t>{0, 1, 100, 101, 200, 201}));
  EXPECT_EQ(row(Collective::kAllToAll, 1), (std::vector<uint64_t>{2, 3, 102, 103, 202, 203}));
  EXPECT_EQ(row(Collective::kBroadcast, 0), (std::vector<uint64_t>{200, 201}));
  EXPECT_EQ(row(Collective::kGather, 2), (std::vector<uint64_t>{0, 1, 100, 101, 200, 201}));
  EXPECT_TRUE(row(Collective::kGather, 1).empty());
  EXPECT_EQ(row(Collective::kScatter, 1), (std::vector<uint64_t>{202, 203}));
  EXPECT_EQ(row(Collective::kReduce, 2), (std::vector<uint64_t>{300, 303}));
  EXPECT_TRUE(row(Collective::kReduce, 0).empty());
  EXPECT_EQ(row(Collective::kAllReduce, 0), (std::vector<uint64_t>{300, 303}));
  EXPECT_EQ(row(Collective::kReduceScatter, 2), (std::vector<uint64_t>{312, 315}));
  EXPECT_TRUE(row(Collective::kBarrier, 0).empty());
}

// Elements between shares are -1.
TEST(Reference, MovesSharesThatDiffer) {
  Problem p{.type = tuttiInt32, .ranks = 3};
  const auto row = [&](Collective collective, int rank, std::vector<uint64_t> counts,
                       uint64_t gap) {
    p.collective = collective;
    p.counts = std::move(counts);
    p.gap = gap;
    std::vector<int> bits;
    for (uint64_t i = 0; i < output_elements(p, rank); ++i) {
      const bool between = source_of(p, rank, i).rank < 0;
      bits.push_back(between ? -1 : static_cast<int>(expected(p, simple, rank, i).bits));
    }
    return bits;
  };
  using Row = std::vector<int>;
  EXPECT_EQ(row(Collective::kAllGatherV, 1, {2, 0, 1}, 0), (Row{0, 1, 200}));
  EXPECT_EQ(row(Collective::kAllGatherV, 1, {2, 0, 1}, 1), (Row{-1, 0, 1, -1, -1, 200, -1}));
  EXPECT_EQ(place_of(p, 2), 5u);
  EXPECT_EQ(row(Collective::kReduceScatterV, 2, {2, 0, 1}, 0), (Row{306}));
  EXPECT_EQ(row(Collective::kReduceScatterV, 0, {2, 0, 1}, 0), (Row{300, 303}));
  EXPECT_TRUE(row(Collective::kReduceScatterV, 1, {2, 0, 1}, 0).empty());
  EXPECT_EQ(input_elements(p, 1), 3u);
  // Rank 1 gets one element of rank 0, two of itself and three of rank 2.
  const std::vector<uint64_t> matrix = {5, 1, 0, 1, 2, 0, 4, 3, 9};
  EXPECT_EQ(row(Collective::kAllToAllV, 1, matrix, 0), (Row{5, 101, 102, 204, 205, 206}));
  EXPECT_EQ(row(Collective::kAllToAllV, 1, matrix, 2),
            (Row{-1, -1, 9, -1, -1, 105, 106, -1, -1, 208, 209, 210, -1, -1}));
  EXPECT_EQ(input_elements(p, 2), 24u);
  EXPECT_EQ(share(p, 2, 0), 4u);
}

TEST(Reference, SpreadCountsDifferAndFitInPlace) {
  Problem p{.collective = Collective::kAllToAllV, .ranks = 6, .count = 8};
  for (const bool symmetric : {false, true}) {
    spread_counts(p, symmetric);
    int unlike = 0;
    uint64_t least = p.count, most = 0;
    for (int from = 0; from < p.ranks; ++from) {
      for (int to = 0; to < p.ranks; ++to) {
        unlike += share(p, from, to) != share(p, to, from) ? 1 : 0;
        least = std::min(least, share(p, from, to));
        most = std::max(most, share(p, from, to));
      }
    }
    EXPECT_EQ(unlike == 0, symmetric);
    EXPECT_EQ(least, 0u);
    EXPECT_EQ(most, p.count);
  }
}

Expected of(tuttiDataType_t type, tuttiRedOp_t op, const std::vector<long double>& values) {
  Problem p{.type = type, .op = op, .ranks = static_cast<int>(values.size()), .count = 1};
  const auto input = [&](int rank, uint64_t) {
    const long double value = values[static_cast<size_t>(rank)];
    return is_float(type) ? encode(type, value)
                          : wrap(type, static_cast<uint64_t>(static_cast<int64_t>(value)));
  };
  return reduce(p, input, 0);
}

TEST(Reference, IntegersWrapAndAveragesTruncate) {
  EXPECT_EQ(of(tuttiInt8, tuttiSum, {100, 100}).bits, 200u);
  EXPECT_EQ(of(tuttiUint8, tuttiProd, {16, 17}).bits, 16u);
  EXPECT_EQ(of(tuttiInt8, tuttiAvg, {-3, -4}).bits, 0xfdu);  // -7 / 2 is -3
  EXPECT_EQ(of(tuttiUint32, tuttiAvg, {3, 4}).bits, 3u);
  EXPECT_EQ(of(tuttiInt32, tuttiMax, {-5, 3, -7}).bits, 3u);
  EXPECT_EQ(of(tuttiInt32, tuttiMin, {-5, 3, -7}).bits, wrap(tuttiInt32, ~uint64_t{6}));
}

TEST(Reference, BitsAreCombinedOneByOneAndBoolsAsTheirNamesSay) {
  EXPECT_EQ(of(tuttiInt16, tuttiBitAnd, {0x7f0f, 0x00ff}).bits, 0x000fu);
  EXPECT_EQ(of(tuttiInt16, tuttiBitOr, {-32768, 1}).bits, 0x8001u);
  EXPECT_EQ(of(tuttiUint8, tuttiBitXor, {0xff, 0x0f, 0x01}).bits, 0xf1u);
  EXPECT_EQ(of(tuttiInt16, tuttiSum, {32767, 1}).bits, 0x8000u);
  EXPECT_EQ(of(tuttiUint16, tuttiMax, {0x8000, 1}).bits, 0x8000u);
  for (const tuttiRedOp_t any : {tuttiSum, tuttiMax, tuttiBitOr}) {
    EXPECT_EQ(of(tuttiBool, any, {1, 0, 1}).bits, 1u);
    EXPECT_EQ(of(tuttiBool, any, {0, 0}).bits, 0u);
  }
  for (const tuttiRedOp_t all : {tuttiProd, tuttiMin, tuttiBitAnd}) {
    EXPECT_EQ(of(tuttiBool, all, {1, 0, 1}).bits, 0u);
    EXPECT_EQ(of(tuttiBool, all, {1, 1}).bits, 1u);
  }
  EXPECT_EQ(of(tuttiBool, tuttiBitXor, {1, 1, 1}).bits, 1u);
}

TEST(Reference, ScaledSumsRoundEachProduct) {
  Problem p{.type = tuttiUint8, .ranks = 2, .count = 1, .scalars = {100, 3}};
  const auto sum = [&](uint64_t first, uint64_t second) {
    return reduce(
        p, [&](int rank, uint64_t) { return rank == 0 ? first : second; }, 0);
  };
  EXPECT_EQ(sum(3, 2).bits, 50u);  // 306, which wraps
  // 1.125 * 1.125 = 1.265625 is rounded to 1.25 before anything is added.
  p.type = tuttiFloat8e4m3;
  const uint64_t ninth = encode(p.type, 1.125L), less = encode(p.type, -1.25L);
  p.scalars = {ninth, encode(p.type, 1.0L)};
  EXPECT_EQ(sum(ninth, less).value, 0.0L);
  p.canonical = true;
  EXPECT_EQ(sum(ninth, less).bits, encode(p.type, 0.0L));
  p.type = tuttiFloat64;
  const uint64_t odd = encode(p.type, 1 + std::ldexp(1.0L, -52));
  p.scalars = {odd, encode(p.type, 0.0L)};
  EXPECT_EQ(sum(odd, odd).bits, encode(p.type, 1 + std::ldexp(1.0L, -51)));
}

TEST(Reference, TheBoundIsNarrow) {
  const Expected sum = of(tuttiFloat32, tuttiSum, {1, 2, 4});
  EXPECT_EQ(sum.value, 7.0L);
  EXPECT_TRUE(matches(tuttiFloat32, sum, encode(tuttiFloat32, 7.0L)));
  EXPECT_FALSE(matches(tuttiFloat32, sum, encode(tuttiFloat32, 7.00001L)));
  const Expected narrow = of(tuttiFloat8e4m3, tuttiSum, {1, 1.125L});
  EXPECT_TRUE(matches(tuttiFloat8e4m3, narrow, encode(tuttiFloat8e4m3, 2.0L)));
  EXPECT_FALSE(matches(tuttiFloat8e4m3, narrow, encode(tuttiFloat8e4m3, 1.75L)));
  EXPECT_FALSE(matches(tuttiFloat8e4m3, narrow, 0x7f));
}

TEST(Reference, TheCanonicalTreeSkipsMissingPartners) {
  // (1 + 2^-24) rounds to 1 before the third comes; serially from the right nothing would be lost.
  Problem p{.type = tuttiFloat32, .ranks = 3, .count = 1, .canonical = true};
  const long double tiny = std::ldexp(1.0L, -24);
  const std::vector<long double> values = {1.0L, tiny, tiny};
  const auto input = [&](int rank, uint64_t) {
    return encode(tuttiFloat32, values[static_cast<size_t>(rank)]);
  };
  EXPECT_EQ(reduce(p, input, 0).bits, encode(tuttiFloat32, 1.0L));
  p.ranks = 2;
  p.op = tuttiAvg;
  EXPECT_EQ(reduce(p, input, 0).bits, encode(tuttiFloat32, 0.5L));
}

}  // namespace
}  // namespace tutti::reference
