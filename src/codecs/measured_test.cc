#include "src/codecs/measured.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tutti::codecs {
namespace {

Codec codec_of(const char* text) { return parse_codec(text).value(); }

TEST(MeasuredCodecs, EveryFamilyTakesTime) {
  for (const CodecFamily& family : codec_families()) {
    const CodecTimes times = measure({&family, family.usual});
    EXPECT_GT(times.encode_ns, 0) << family.name;
    EXPECT_GT(times.decode_ns, 0) << family.name;
    EXPECT_TRUE(std::isfinite(times.encode_ns + times.decode_ns)) << family.name;
  }
}

TEST(MeasuredCodecs, EachCodecOfAnOptionIsMeasuredOnce) {
  const WireOption option =
      parse_wire("network:int8_block,region:int8_block:256,site:e3m0:256").value();
  const std::vector<MeasuredCodec> measured = measure(option);
  ASSERT_EQ(measured.size(), 2u);
  EXPECT_EQ(measured[0].codec, "int8_block:256");
  EXPECT_EQ(measured[1].codec, "e3m0:256");
}

TEST(MeasuredCodecs, TextsAreReadAsTheyWereWrittenAndOthersAreNothing) {
  const std::vector<MeasuredCodec> measured = {{"int8_block:256", {0.125, 0.031}},
                                               {"bf16", {0.05, 0.02}}};
  EXPECT_EQ(to_text(measured), "int8_block:256 125 31 bf16 50 20");
  EXPECT_EQ(read_measured(to_text(measured)), measured);
  EXPECT_TRUE(read_measured("").empty());
  for (const char* wrong : {"bf16 0 5", "bf16 x 5", "bf16 5 -1", "bf16 5 2000000000"}) {
    EXPECT_TRUE(read_measured(wrong).empty()) << wrong;
  }
}

TEST(MeasuredCodecs, RanksAgreeOnTheMedianOfWhatAllHaveMeasured) {
  const std::vector<std::vector<MeasuredCodec>> of_ranks = {
      {{"bf16", {1, 9}}, {"e3m0:256", {1, 1}}}, {{"bf16", {5, 3}}}, {{"bf16", {3, 6}}}};
  const std::vector<MeasuredCodec> agreed = agree(of_ranks);
  ASSERT_EQ(agreed.size(), 1u);  // one rank has not measured the other one
  EXPECT_EQ(agreed[0], (MeasuredCodec{"bf16", {3, 6}}));
  EXPECT_TRUE(agree({}).empty());
}

TEST(MeasuredCodecs, WhatNobodyMeasuredTakesWhatItsFamilyTookElsewhere) {
  const std::vector<MeasuredCodec> measured = {{"int8_block:256", {7, 8}}};
  EXPECT_EQ(times_of(codec_of("int8_block"), measured), (CodecTimes{7, 8}));
  const Codec other = codec_of("int8_block:64");
  EXPECT_EQ(times_of(other, measured), other.family->times);
}

}  // namespace
}  // namespace tutti::codecs
