// Every codec over sizes, places in memory and instruction sets; what is special to each family.
#include "src/codecs/codecs_test.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "src/codecs/bodies.h"
#include "src/codecs/codec.h"
#include "src/types/instruction_sets.h"
#include "src/types/narrow_float.h"

namespace tutti::codecs {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class EveryCodec : public testing::TestWithParam<std::string> {
 protected:
  const tuttiCodec_t codec = codec_named(GetParam());

  std::vector<size_t> sizes() const {
    const size_t block = codec.block == 0 ? 64 : codec.block;
    return {0, 1, block - 1, block, block + 1, 3 * block + 7, 2 * block + 256 + 5};
  }
};

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec, testing::ValuesIn(all_codecs()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

TEST_P(EveryCodec, StaysWithinItsBoundWithEqualBitsOnEveryInstructionSet) {
  for (const size_t size : sizes()) {
    const Values values = hard_values(size, size + 1, 1e4f);
    EncodedBytes first;
    Values first_decoded;
    types::for_each_instruction_set([&] {
      const EncodedBytes bytes = encode(codec, values);
      const Values decoded = decode(codec, bytes, size);
      expect_within_bound(codec, values, decoded);
      if (first.empty()) first = bytes, first_decoded = decoded;
      EXPECT_EQ(bytes, first);
      EXPECT_TRUE(same_bits(decoded, first_decoded));
    });
  }
}

TEST_P(EveryCodec, WorksAtAnyPlaceAndWritesNothingElse) {
  constexpr std::byte kGuard{0xA5};
  for (const size_t size : sizes()) {
    for (const size_t offset : {0, 1, 3}) {
      const Values values = hard_values(size + offset, size, 100);
      const Values own(values.begin() + static_cast<ptrdiff_t>(offset), values.end());
      const size_t bytes = bytes_of(codec, size);
      EncodedBytes room(bytes + offset + 9, kGuard);
      ASSERT_EQ(tuttiCodecEncode(&codec, values.data() + offset, size, room.data() + offset, 0),
                tuttiSuccess);
      const EncodedBytes expected = encode(codec, own);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), room.data() + offset));
      EXPECT_EQ(std::count(room.begin(), room.begin() + static_cast<ptrdiff_t>(offset), kGuard),
                static_cast<ptrdiff_t>(offset));
      EXPECT_EQ(std::count(room.end() - 9, room.end(), kGuard), 9);
      Values target(size + offset + 3, 7.0f);
      ASSERT_EQ(tuttiCodecDecode(&codec, room.data() + offset, size, target.data() + offset),
                tuttiSuccess);
      EXPECT_EQ(std::count(target.end() - 3, target.end(), 7.0f), 3);
      target.resize(size + offset);
      target.erase(target.begin(), target.begin() + static_cast<ptrdiff_t>(offset));
      EXPECT_TRUE(same_bits(target, decode(codec, expected, size)));
    }
  }
}

// Sections 16 to 21: a sum of decoded values is the fp32 sum of these values in a fixed order.
TEST_P(EveryCodec, AddsWhatItWouldDecode) {
  const size_t size = sizes().back();
  Values sums(size, 0.25f), expected(size, 0.25f);
  types::for_each_instruction_set([&] {
    for (uint64_t source = 0; source < 3; ++source) {
      const EncodedBytes bytes = encode(codec, hard_values(size, source, 50));
      const Values decoded = decode(codec, bytes, size);
      for (size_t i = 0; i < size; ++i) expected[i] += decoded[i];
      ASSERT_EQ(tuttiCodecDecodeAdd(&codec, bytes.data(), size, sums.data()), tuttiSuccess);
    }
    EXPECT_TRUE(std::equal(sums.begin(), sums.end(), expected.begin()));
  });
}

// Section 3.20: what was decoded once has the same values when it is encoded again.
TEST_P(EveryCodec, KeepsWhatIsOnItsGrid) {
  const size_t size = sizes().back();
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Values once = round_trip(codec, hard_values(size, seed, 1e4f));
    EXPECT_EQ(round_trip(codec, once), once);
  }
}

// Section 3.20: the same bits for one and two threads.
TEST_P(EveryCodec, PartsBetweenBlocksAreThoseOfTheWhole) {
  const size_t block = codec.block == 0 ? 8 : codec.block, size = 5 * block + 3;
  const Values values = hard_values(size, 4, 10);
  EncodedBytes parts = encode(codec, Values(values.begin(), values.begin() + 2 * ptrdiff_t(block)));
  const EncodedBytes rest =
      encode(codec, Values(values.begin() + 2 * ptrdiff_t(block), values.end()));
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, encode(codec, values));
}

// Conservation, exact: new error + decoded == beta * error + input, in real numbers.
TEST_P(EveryCodec, FeedbackLosesNothing) {
  for (const float beta : {0.0f, 0.999f, 1.0f}) {
    for (const size_t size : sizes()) {
      Values error(size, 0.0f);
      for (uint64_t step = 0; step < 4; ++step) {
        const Values input = hard_values(size, step * 7 + size, 300);
        Values sums(size);
        for (size_t i = 0; i < size; ++i) {
          const float kept = beta * error[i];
          sums[i] = kept + input[i];
        }
        const tuttiCodecFeedback_t feedback{sizeof feedback, error.data(), size, beta, 0};
        EncodedBytes bytes(bytes_of(codec, size));
        ASSERT_EQ(tuttiCodecEncodeFeedback(&codec, input.data(), size, &feedback, bytes.data()),
                  tuttiSuccess)
            << tuttiGetLastError(nullptr);
        EXPECT_EQ(bytes, encode(codec, sums));
        const Values decoded = decode(codec, bytes, size);
        for (size_t i = 0; i < size; ++i) {
          const auto whole = static_cast<long double>(error[i]) + decoded[i];
          ASSERT_EQ(whole, static_cast<long double>(sums[i])) << i;
        }
      }
    }
  }
}

// ... also at the largest magnitude that is let through, where formats saturate.
TEST_P(EveryCodec, FeedbackLosesNothingAtItsLimitAndRefusesMore) {
  const float limit = facts_of(codec).conserves;
  const float beyond = std::nextafter(limit, kInfinity);
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    Values input(16, 0.0f), error(16, 0.0f);
    for (float& x : input) {
      x = limit / static_cast<float>(1 + random() % 100);
      if (round % 2 != 0) x = std::nextafter(x, 0.0f);
    }
    const tuttiCodecFeedback_t feedback{sizeof feedback, error.data(), 16, 1, 0};
    EncodedBytes bytes(bytes_of(codec, 16));
    ASSERT_EQ(tuttiCodecEncodeFeedback(&codec, input.data(), 16, &feedback, bytes.data()),
              tuttiSuccess);
    const Values decoded = decode(codec, bytes, 16);
    for (size_t i = 0; i < 16; ++i) {
      const auto whole = static_cast<long double>(error[i]) + decoded[i];
      ASSERT_EQ(whole, static_cast<long double>(input[i])) << i;
    }
    error.assign(16, 0.0f);
    for (const float bad : {beyond, kNan, -kInfinity}) {
      const Values before = error;
      const EncodedBytes sent = bytes;
      input[5] = bad;
      EXPECT_EQ(tuttiCodecEncodeFeedback(&codec, input.data(), 16, &feedback, bytes.data()),
                tuttiInvalidArgument);
      EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("value 5 is not finite"),
                std::string::npos);
      EXPECT_EQ(error, before);
      EXPECT_EQ(bytes, sent);
    }
  }
}

TEST_P(EveryCodec, RefusesWhatItCannotCarryUnlessToldOtherwise) {
  const float accepts = facts_of(codec).accepts;
  for (const float bad : {kNan, kInfinity, -kInfinity}) {
    Values values = hard_values(40, 3, 10);
    values[17] = bad;
    EncodedBytes bytes(bytes_of(codec, 40), std::byte{9});
    const tuttiResult_t result = tuttiCodecEncode(&codec, values.data(), 40, bytes.data(), 0);
    EXPECT_EQ(result, std::isnan(accepts) ? tuttiSuccess : tuttiInvalidArgument);
    if (result != tuttiSuccess) {
      EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("value 17"), std::string::npos);
      EXPECT_EQ(bytes, EncodedBytes(bytes.size(), std::byte{9}));
    }
    types::for_each_instruction_set([&] {
      const float got = round_trip(codec, values, TUTTI_CODEC_PROPAGATE)[17];
      const std::string name = codec.name;
      if (std::isnan(bad) || codec.block != 0 || name == "log_byte") {
        EXPECT_TRUE(std::isnan(got)) << name;
      } else if (name.starts_with("fp8")) {
        EXPECT_EQ(got, std::copysign(facts_of(codec).saturates, bad));
      } else {
        EXPECT_EQ(got, bad);
      }
    });
  }
}

// ---- bodies: one value at a time gives the bits of the vectors ----

TEST(CodecBodies, AreWhatVectorsDo) {
  const Values values = hard_values(5000, 11, 1e30f);
  const auto ints = codec_named("int8_block:8"), powers = codec_named("e3m0:8");
  const auto logs = codec_named("log_byte"), bf16 = codec_named("bf16");
  const EncodedBytes i8 = encode(ints, values), e3 = encode(powers, values);
  const EncodedBytes lb = encode(logs, values), bf = encode(bf16, values);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t largest = magnitude_bits(largest_near(values, ints, i));
    const float scale = scale_of(largest, 127);
    EXPECT_EQ(static_cast<int8_t>(i8[i / 8 * 12 + 4 + i % 8]), level_of(values[i], scale, 127));
    const auto half = static_cast<uint32_t>(e3[i / 8 * 5 + 1 + i % 8 / 2]) >> (i % 2 * 4) & 15;
    EXPECT_EQ(half, power_code(values[i], top_of(largest))) << values[i];
    EXPECT_EQ(round_trip(powers, {values[i]})[0],
              power_value(power_code(values[i], top_of(magnitude_bits(values[i]))),
                          top_of(magnitude_bits(values[i]))));
    EXPECT_EQ(static_cast<uint32_t>(lb[i]), log_code(values[i]));
    uint16_t code;
    std::memcpy(&code, &bf[2 * i], 2);
    EXPECT_EQ(code, types::encoded_bfloat16(values[i]));
  }
}

// ---- all codes of the small ones ----

TEST(ByteCodecs, EveryCodeComesBack) {
  EncodedBytes all(256);
  for (size_t i = 0; i < 256; ++i) all[i] = static_cast<std::byte>(i);
  types::for_each_instruction_set([&] {
    for (const char* name : {"log_byte", "fp8_e4m3", "fp8_e5m2"}) {
      const auto codec = codec_named(name);
      const Values values = decode(codec, all, 256);
      const EncodedBytes again = encode(codec, values, TUTTI_CODEC_PROPAGATE);
      for (size_t i = 0; i < 256; ++i) {
        if (std::isnan(values[i])) {
          EXPECT_TRUE(std::isnan(decode(codec, {again[i]}, 1)[0])) << name << " " << i;
        } else if (std::isinf(values[i])) {
          EXPECT_EQ(decode(codec, {again[i]}, 1)[0], std::copysign(57344.0f, values[i]));
        } else {
          EXPECT_EQ(again[i], all[i]) << name << " " << i;
        }
      }
    }
  });
  const Values logs = decode(codec_named("log_byte"), all, 256);
  EXPECT_EQ(std::count_if(logs.begin(), logs.end(), [](float x) { return std::isnan(x); }), 1);
}

TEST(ByteCodecs, EveryCodeOfABlockComesBack) {
  for (const char* name : {"int8_block:256", "int4_block:16", "e3m0:16"}) {
    const auto codec = codec_named(name);
    const bool is_power = std::string(codec.name) == "e3m0";
    const int levels = std::string(codec.name) == "int8_block" ? 127 : 7;
    Values values;
    for (int level = -levels; level <= levels; ++level) {
      values.push_back(is_power ? std::copysign(std::ldexp(1.0f, std::abs(level)), level)
                                : 0.375f * static_cast<float>(level));
    }
    if (is_power) values[7] = 0;  // +-2 .. +-128, and zero
    EXPECT_EQ(round_trip(codec, values), values) << name;
  }
}

TEST(ShortFloats, EveryCodeComesBack) {
  for (const char* name : {"bf16", "fp16"}) {
    const auto codec = codec_named(name);
    EncodedBytes all(131072);
    for (uint32_t i = 0; i < 65536; ++i) std::memcpy(&all[2 * i], &i, 2);
    const Values values = decode(codec, all, 65536);
    const Values again = round_trip(codec, values, TUTTI_CODEC_PROPAGATE);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(values[i] == again[i] || (std::isnan(values[i]) && std::isnan(again[i]))) << i;
    }
  }
}

// ---- top_k ----

/// The kept indices of one tile by sorting: larger magnitudes first, then lower indices.
std::vector<size_t> kept_by_sorting(const Values& tile, size_t kept) {
  std::vector<size_t> order(tile.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::fabs(tile[a]) > std::fabs(tile[b]); });
  order.resize(std::min(kept, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

// Section 19: ties go to the lowest index, equal on all ranks.
TEST(TopK, KeepsTheLargestAndOfEqualOnesTheFirst) {
  const auto codec = codec_named("top_k:64:9:8");
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Values tile = hard_values(seed % 2 == 0 ? 64 : 37, seed, 4);
    if (seed % 3 == 0) {
      for (float& x : tile) x = std::round(x * 3) / 3;  // many are equal
    }
    Values expected(tile.size(), 0.0f);
    const float scale = scale_of(magnitude_bits(largest_near(tile, codec, 0)), 127);
    for (const size_t i : kept_by_sorting(tile, 9)) {
      expected[i] = static_cast<float>(level_of(tile[i], scale, 127)) * scale;
    }
    types::for_each_instruction_set([&] { EXPECT_EQ(round_trip(codec, tile), expected) << seed; });
  }
}

// Section 19 (f): an index that occurs twice, or lies outside of the tile, is refused.
TEST(TopK, RefusesBytesThatNoEncoderWrites) {
  const auto codec = codec_named("top_k:16:2:8");
  const Values values = {0, 0, 5, 0, 0, 0, -3, 0, 0, 0, 0, 0};
  const EncodedBytes good = encode(codec, values);
  ASSERT_EQ(good.size(), 4u + 1 + 2);
  const auto refused = [&](size_t byte, int value) {
    EncodedBytes bad = good;
    bad[byte] = static_cast<std::byte>(value);
    Values out(values.size());
    return tuttiCodecDecode(&codec, bad.data(), out.size(), out.data()) == tuttiInvalidArgument;
  };
  EXPECT_EQ(static_cast<int>(good[4]), 0x62);  // indices 2 and 6
  EXPECT_TRUE(refused(4, 0x22));               // the same twice
  EXPECT_TRUE(refused(4, 0x26));               // not ascending
  EXPECT_TRUE(refused(4, 0xD2));               // 13 of a short tile of 12
  EXPECT_TRUE(refused(3, 0xBF));               // a negative scale
  EXPECT_TRUE(refused(0, 0x01));               // a scale with more than 16 bits
  EXPECT_FALSE(refused(4, 0x72));
  EXPECT_NE(std::string(tuttiGetLastError(nullptr)).find("not encoded by top_k:16:2:8"),
            std::string::npos);
}

TEST(PowerCodec, RefusesHeadersThatNoEncoderWrites) {
  const auto codec = codec_named("e3m0:8");
  for (const int header : {0, 248, 254}) {
    const EncodedBytes bytes = {static_cast<std::byte>(header), std::byte{0}};
    float value;
    EXPECT_EQ(tuttiCodecDecode(&codec, bytes.data(), 1, &value), tuttiInvalidArgument) << header;
  }
}

}  // namespace
}  // namespace tutti::codecs
