// For tests of codecs: codecs by their text, values that are hard, and calls that must succeed.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tutti/codecs.h"

namespace tutti::codecs {

using Values = std::vector<float>;
using EncodedBytes = std::vector<std::byte>;

inline tuttiCodec_t codec_named(const std::string& text) {
  tuttiCodec_t codec{};
  EXPECT_EQ(tuttiCodecParse(text.c_str(), &codec), tuttiSuccess) << tuttiGetLastError(nullptr);
  return codec;
}

/// Every codec that is registered, and some with small numbers, so that blocks end within vectors.
inline std::vector<std::string> all_codecs() {
  std::vector<std::string> texts;
  tuttiCodec_t codec;
  for (int i = 0; tuttiCodecList(i, &codec) == tuttiSuccess; ++i) {
    char text[64];
    EXPECT_EQ(tuttiCodecText(&codec, text, sizeof text), tuttiSuccess);
    texts.push_back(text);
  }
  for (const char* small : {"int8_block:8", "int8_block:24", "int4_block:8", "int4_block:40",
                            "e3m0:8", "e3m0:48", "top_k:8:3:2", "top_k:24:24:8", "top_k:64:1:5"}) {
    texts.push_back(small);
  }
  return texts;
}

inline tuttiCodecFacts_t facts_of(const tuttiCodec_t& codec) {
  tuttiCodecFacts_t facts{};
  facts.size = sizeof facts;
  EXPECT_EQ(tuttiCodecGetFacts(&codec, &facts), tuttiSuccess);
  return facts;
}

inline size_t bytes_of(const tuttiCodec_t& codec, size_t count) {
  size_t bytes = 0;
  EXPECT_EQ(tuttiCodecBytes(&codec, count, &bytes), tuttiSuccess);
  return bytes;
}

inline EncodedBytes encode(const tuttiCodec_t& codec, const Values& values,
                           int flags = TUTTI_CODEC_REFUSE) {
  EncodedBytes bytes(bytes_of(codec, values.size()));
  EXPECT_EQ(tuttiCodecEncode(&codec, values.data(), values.size(), bytes.data(), flags),
            tuttiSuccess)
      << tuttiGetLastError(nullptr);
  return bytes;
}

inline Values decode(const tuttiCodec_t& codec, const EncodedBytes& bytes, size_t count) {
  Values values(count);
  EXPECT_EQ(tuttiCodecDecode(&codec, bytes.data(), count, values.data()), tuttiSuccess)
      << tuttiGetLastError(nullptr);
  return values;
}

inline Values round_trip(const tuttiCodec_t& codec, const Values& values,
                         int flags = TUTTI_CODEC_REFUSE) {
  return decode(codec, encode(codec, values, flags), values.size());
}

/// Magnitudes over many powers of two, zeros of both signs, subnormals, and values that are equal.
inline Values hard_values(size_t count, uint64_t seed, float most) {
  std::mt19937_64 random(seed);
  Values values(count);
  for (float& value : values) {
    const uint64_t bits = random();
    const float wide = std::ldexp(static_cast<float>(bits >> 40), static_cast<int>(bits % 60) - 60);
    const float near = static_cast<float>(bits >> 40) * 0x1p-24f;
    const float kinds[] = {near, near, near, wide, 0, 1, 0.5f, 0x1p-140f};
    value = std::min(kinds[bits >> 8 & 7], most);
    if (bits >> 12 & 1) value = -value;
  }
  return values;
}

inline bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// The block of value i: all values before a codec without blocks has one of a single value.
inline float largest_near(const Values& values, const tuttiCodec_t& codec, size_t i) {
  const size_t block = codec.block == 0 ? 1 : codec.block;
  float largest = 0;
  for (size_t k = i / block * block; k < values.size() && k < (i / block + 1) * block; ++k) {
    largest = std::max(largest, std::fabs(values[k]));
  }
  return largest;
}

inline void expect_within_bound(const tuttiCodec_t& codec, const Values& values,
                                const Values& decoded) {
  const tuttiCodecFacts_t facts = facts_of(codec);
  ASSERT_EQ(values.size(), decoded.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    if (std::fabs(x) > facts.saturates) {
      ASSERT_EQ(decoded[i], std::copysign(facts.saturates, values[i]));
      continue;
    }
    const double bound =
        std::max({facts.relative * std::fabs(x),
                  static_cast<double>(facts.of_largest) * largest_near(values, codec, i),
                  static_cast<double>(facts.least)});
    ASSERT_LE(std::fabs(x - decoded[i]), bound) << "value " << i << " is " << x;
  }
}

}  // namespace tutti::codecs
