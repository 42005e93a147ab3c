// The numbers that papers give for codecs, and what every entry point refuses. Sections are those
// of the list of systems from which the codecs were made: 7 ZionEX, 18 Streaming DiLoCo, 19
// SparseLoCo, 20 Just One Byte, 3.20 codecs of low-precision communication.
#include <algorithm>

#include "src/codecs/codecs_test.h"

namespace tutti::codecs {
namespace {

double bits_a_value(const std::string& text, size_t count) {
  return 8.0 * static_cast<double>(bytes_of(codec_named(text), count)) / static_cast<double>(count);
}

TEST(CodecNumbersOfPapers, Section7HalfTheBytesWithinTwoToTheMinusEighth) {
  const auto bf16 = codec_named("bf16");
  EXPECT_EQ(bytes_of(bf16, 1000), 2000u);
  double worst = 0;
  for (uint32_t bits = 0x3F800000; bits < 0x40000000; bits += 7) {
    const auto x = std::bit_cast<float>(bits);
    worst = std::max(worst, std::fabs(double{round_trip(bf16, {x})[0]} - x) / x);
    bits += 4096;
  }
  EXPECT_LE(worst, 0x1p-8);
  EXPECT_EQ(round_trip(bf16, {1 + 0x1p-8f, 1 + 0x3p-8f}), (Values{1, 1 + 0x2p-7f}));  // ties even
}

// With 16-bit hops a ring rounds at most ranks - 1 times; cast, gather, sum in fp32 rounds each
// contribution once.
TEST(CodecNumbersOfPapers, Section7RoundingsOfARingAndOfOneCast) {
  const auto bf16 = codec_named("bf16");
  constexpr int kRanks = 8;
  const Values brought = hard_values(kRanks * 64, 5, 1);
  for (size_t i = 0; i < 64; ++i) {
    double exact = 0, magnitudes = 0;
    float hops = brought[i], gathered = 0;
    for (size_t r = 0; r < kRanks; ++r) {
      const float own = brought[r * 64 + i];
      exact += own;
      magnitudes += std::fabs(own);
      if (r > 0) hops = round_trip(bf16, {hops})[0] + own;
      gathered += round_trip(bf16, {own})[0];
    }
    EXPECT_LE(std::fabs(hops - exact), magnitudes * (kRanks - 1) * 0x1p-8 * 1.01);
    EXPECT_LE(std::fabs(gathered - exact), magnitudes * 0x1p-8 * 1.01);
  }
}

TEST(CodecNumbersOfPapers, IntegerBlocksTakeAQuarterAndALittleMore) {
  EXPECT_NEAR(bits_a_value("int8_block:256", 1 << 20) / 32, 0.254, 0.0005);
  EXPECT_NEAR(bits_a_value("int4_block:256", 1 << 20) / 32, 0.129, 0.0005);
}

// Adversarial blocks: every value lies between two levels.
TEST(CodecNumbersOfPapers, Section320ErrorIsHalfAStepOfTheLargest) {
  for (const auto& [text, levels] : {std::pair{"int8_block:256", 127}, {"int4_block:256", 7}}) {
    const auto codec = codec_named(text);
    for (const float largest : {1.0f, 3.1f, 1e-20f, 7e20f, 0.77777f}) {
      Values values(256);
      for (int i = 0; i < 256; ++i) {
        const double step = double{largest} / levels;
        values[static_cast<size_t>(i)] = static_cast<float>((i % levels + 0.5) * step);
      }
      values[9] = -largest;
      const Values got = round_trip(codec, values);
      double worst = 0;
      for (size_t i = 0; i < 256; ++i) {
        worst = std::max(worst, std::fabs(double{got[i]} - values[i]));
      }
      EXPECT_LE(worst, double{largest} / (2 * levels) * (1 + 1e-4));
      EXPECT_GE(worst, double{largest} / (2 * levels) * (1 - 1e-2));
      EXPECT_NEAR(got[9], -largest, largest * 1e-4f);
    }
  }
  EXPECT_EQ(round_trip(codec_named("int8_block:8"), Values(8, 0.0f)), Values(8, 0.0f));
}

// A sum of quantised contributions, quantised once more: half a step of each, and one of the sum.
TEST(CodecNumbersOfPapers, Section320TwoQuantisationsForAnyNumberOfRanks) {
  const auto codec = codec_named("int8_block:64");
  for (const int ranks : {2, 5, 16}) {
    Values sums(64, 0.0f);
    std::vector<double> exact(64, 0.0);
    double bound = 0;
    for (int r = 0; r < ranks; ++r) {
      const Values own = hard_values(64, static_cast<uint64_t>(r) + 100, 3);
      bound += largest_near(own, codec, 0) / (2 * 127.0);
      const EncodedBytes bytes = encode(codec, own);
      ASSERT_EQ(tuttiCodecDecodeAdd(&codec, bytes.data(), 64, sums.data()), tuttiSuccess);
      for (size_t i = 0; i < 64; ++i) exact[i] += own[i];
    }
    bound += largest_near(sums, codec, 0) / (2 * 127.0);
    const Values result = round_trip(codec, sums);
    for (size_t i = 0; i < 64; ++i) EXPECT_LE(std::fabs(result[i] - exact[i]), bound * 1.001);
  }
}

// Unbiased within 4 sigma over 1e5 draws; the same bits however an array is cut.
TEST(CodecNumbersOfPapers, Section320StochasticRoundingIsUnbiased) {
  for (const char* text : {"int8_block:64", "int4_block:64"}) {
    const auto codec = codec_named(text);
    const Values values = hard_values(192, 5, 2);
    const tuttiCodecFacts_t facts = facts_of(codec);
    std::vector<double> sums(192, 0.0);
    constexpr int kDraws = 100'000;
    EncodedBytes bytes(bytes_of(codec, 192));
    Values decoded(192);
    for (uint64_t step = 0; step < kDraws; ++step) {
      const tuttiCodecDraws_t draws{sizeof draws, 7, step, 1, 0};
      ASSERT_EQ(tuttiCodecEncodeStochastic(&codec, values.data(), 192, &draws, bytes.data()),
                tuttiSuccess);
      ASSERT_EQ(tuttiCodecDecode(&codec, bytes.data(), 192, decoded.data()), tuttiSuccess);
      for (size_t i = 0; i < 192; ++i) sums[i] += double{decoded[i]} - values[i];
    }
    for (size_t i = 0; i < 192; ++i) {
      const double step = 2 * facts.of_largest * largest_near(values, codec, i);
      EXPECT_LE(std::fabs(decoded[i] - values[i]), step * 1.0001);
      const double sigma = step / 2 / std::sqrt(double{kDraws});
      EXPECT_NEAR(sums[i] / kDraws, 0, 4 * sigma) << values[i];
    }
    const tuttiCodecDraws_t whole{sizeof whole, 7, 3, 1, 0}, part{sizeof part, 7, 3, 1, 64};
    EncodedBytes all(bytes.size()), rest(bytes_of(codec, 128));
    ASSERT_EQ(tuttiCodecEncodeStochastic(&codec, values.data(), 192, &whole, all.data()),
              tuttiSuccess);
    ASSERT_EQ(tuttiCodecEncodeStochastic(&codec, values.data() + 64, 128, &part, rest.data()),
              tuttiSuccess);
    EXPECT_TRUE(std::equal(rest.begin(), rest.end(), all.end() - std::ssize(rest)));
    // A value on the grid stays, whatever is drawn.
    const Values grid = decode(codec, all, 192);
    ASSERT_EQ(tuttiCodecEncodeStochastic(&codec, grid.data(), 192, &part, bytes.data()),
              tuttiSuccess);
    EXPECT_EQ(decode(codec, bytes, 192), grid);
  }
}

TEST(CodecNumbersOfPapers, Section18FourBitsAndAThirdAtWorst) {
  EXPECT_NEAR(bits_a_value("e3m0:65536", 1 << 20), 4, 0.001);
  const auto codec = codec_named("e3m0:256");
  Values values = {64};
  for (float x = 1; x < 64; x *= 1.0009765625f) values.push_back(x);
  values.resize(256 * (values.size() / 256), 1.0f);
  values.erase(values.begin() + 256, values.end());
  double worst = 0;
  const Values got = round_trip(codec, values);
  for (size_t i = 0; i < values.size(); ++i) {
    worst = std::max(worst, std::fabs(double{got[i]} - values[i]) / values[i]);
  }
  EXPECT_LE(worst, 1.0 / 3);
  EXPECT_EQ(round_trip(codec, {64, 1.5f, -1.5f, 1.49f, 0.0f, -0.0f, 0.4f, 0.5f}),
            (Values{64, 2, -2, 1, 0, 0, 0, 1}));  // 1 is the least, below its half is zero
  EXPECT_NEAR(std::fabs(2 - 1.5) / 1.5, 1.0 / 3, 1e-12);
}

TEST(CodecNumbersOfPapers, Section19BitsOfAParameter) {
  struct Row {
    const char* text;
    double bits, under_bf16, kept, information;
  };
  for (const Row& row :
       {Row{"top_k:4096:32:8", 0.156, 102, 32, 8.3}, Row{"top_k:4096:64:2", 0.219, 73, 64, 7.4},
        Row{"top_k:4096:128:2", 0.4375, 37, 128, 6.4}}) {
    const double scale = 32.0 / 4096;  // which the numbers leave out
    const double bits = bits_a_value(row.text, 1 << 20) - scale;
    EXPECT_NEAR(bits, row.bits, 0.0005) << row.text;
    EXPECT_NEAR(16 / bits, row.under_bf16, 0.5);
    const double choices =
        std::lgamma(4097) - std::lgamma(row.kept + 1) - std::lgamma(4097 - row.kept);
    EXPECT_NEAR(choices / std::log(2.0) / row.kept, row.information, 0.1);
  }
}

TEST(CodecNumbersOfPapers, Section19AllKeptIsDense) {
  const auto codec = codec_named("top_k:64:64:8"), dense = codec_named("int8_block:64");
  const Values values = hard_values(640, 3, 2);
  EXPECT_EQ(round_trip(codec, values), round_trip(dense, values));
}

TEST(CodecNumbersOfPapers, Section20OneByte) {
  const auto codec = codec_named("log_byte");
  EXPECT_EQ(bytes_of(codec, 17), 17u);
  const tuttiCodecFacts_t facts = facts_of(codec);
  EXPECT_NEAR(facts.least * 2, 3.8e-4, 1e-5);
  EXPECT_NEAR(facts.saturates, 2.6e3, 50);
  EXPECT_NEAR(facts.relative, 0.0645, 1e-4);
  EXPECT_NEAR(std::exp(1.0 / 32) - 1, 0.0317, 1e-4);  // of a grid with 16 steps, which needs 9 bits
  double worst = 0;
  for (float x = 3.8e-4f; x < 2600; x *= 1.0001f) {
    worst = std::max(worst, std::fabs(double{round_trip(codec, {x})[0]} - x) / x);
    EXPECT_EQ(round_trip(codec, {x})[0],
              static_cast<float>(std::exp(std::round(8 * std::log(double{x})) / 8)));
  }
  EXPECT_NEAR(worst, std::exp(1.0 / 16) - 1, 2e-4);
  EXPECT_EQ(round_trip(codec, {0, -0.0f, 1, -1, 1e30f, 1e-9f}),
            (Values{0, 0, 1, -1, facts.saturates, 0}));
}

// ---- what is refused ----

std::string refused(tuttiResult_t result) {
  EXPECT_EQ(result, tuttiInvalidArgument);
  return tuttiGetLastError(nullptr);
}
#define EXPECT_SAYS(call, words) EXPECT_NE(refused(call).find(words), std::string::npos)

TEST(CodecCalls, RefuseTextsThatAreNoCodecs) {
  tuttiCodec_t codec;
  EXPECT_SAYS(tuttiCodecParse("int9", &codec), "there is no codec 'int9'; take one of none, bf16");
  EXPECT_SAYS(tuttiCodecParse("bf16:3", &codec), "bf16 takes 0");
  EXPECT_SAYS(tuttiCodecParse("int8_block:x", &codec), "write for example int8_block:256");
  EXPECT_SAYS(tuttiCodecParse("int8_block:12", &codec), "multiple of 8");
  EXPECT_SAYS(tuttiCodecParse("e3m0:0", &codec), "multiple of 8");
  EXPECT_SAYS(tuttiCodecParse("top_k:64:0:4", &codec), "give 1 to 64");
  EXPECT_SAYS(tuttiCodecParse("top_k:64:65:4", &codec), "give 1 to 64");
  EXPECT_SAYS(tuttiCodecParse("top_k:64:8:9", &codec), "give 2 to 8");
  EXPECT_SAYS(tuttiCodecParse("top_k:131072:8:4", &codec), "65536");
  EXPECT_SAYS(tuttiCodecParse(nullptr, &codec), "text is null");
  EXPECT_SAYS(tuttiCodecParse("bf16", nullptr), "codec is null");
  EXPECT_SAYS(tuttiCodecList(99, &codec), "there are 10 codecs");
}

TEST(CodecCalls, RefuseArguments) {
  const auto codec = codec_named("int8_block:8");
  float values[8] = {};
  std::byte bytes[12];
  char text[64];
  tuttiCodec_t damaged = codec;
  damaged.name[0] = 'X';
  EXPECT_SAYS(tuttiCodecText(&damaged, text, 64), "no codec");
  EXPECT_SAYS(tuttiCodecText(&codec, text, 5), "needs 13 bytes");
  EXPECT_SAYS(tuttiCodecEncode(&codec, nullptr, 8, bytes, 0), "values is null");
  EXPECT_SAYS(tuttiCodecEncode(&codec, values, 8, nullptr, 0), "encoded is null");
  EXPECT_SAYS(tuttiCodecEncode(&codec, values, 8, values, 0), "overlap");
  EXPECT_SAYS(tuttiCodecEncode(&codec, values, 8, bytes, 7), "flags are 7");
  EXPECT_SAYS(tuttiCodecEncode(&codec, values, SIZE_MAX / 2, bytes, 0), "address space");
  EXPECT_SAYS(tuttiCodecDecodeAdd(&codec, bytes, 8, nullptr), "sums is null");
  EXPECT_SAYS(tuttiCodecEncode(nullptr, values, 8, bytes, 0), "codec is null");
  EXPECT_EQ(tuttiCodecEncode(&codec, nullptr, 0, nullptr, 0), tuttiSuccess);
  tuttiCodecFacts_t facts{};
  EXPECT_SAYS(tuttiCodecGetFacts(&codec, &facts), "sizeof(tuttiCodecFacts_t)");
}

TEST(CodecCalls, RefuseDraws) {
  const auto codec = codec_named("int8_block:8"), other = codec_named("e3m0:8");
  float values[8] = {};
  std::byte bytes[12];
  tuttiCodecDraws_t draws{sizeof draws, 0, 0, 0, 4};
  EXPECT_SAYS(tuttiCodecEncodeStochastic(&codec, values, 8, &draws, bytes),
              "multiples of the block");
  EXPECT_SAYS(tuttiCodecEncodeStochastic(&codec, values, 8, nullptr, bytes), "draws is null");
  draws.first = 8;
  EXPECT_EQ(tuttiCodecEncodeStochastic(&other, values, 8, &draws, bytes), tuttiUnsupported);
  values[2] = std::nanf("");
  EXPECT_SAYS(tuttiCodecEncodeStochastic(&codec, values, 8, &draws, bytes), "value 2");
  draws.size = 1;
  EXPECT_SAYS(tuttiCodecEncodeStochastic(&codec, values, 8, &draws, bytes), "size is 1");
}

// Section 19 (f): beta outside of [0, 1], NaN in the error.
TEST(CodecCalls, RefuseFeedback) {
  const auto codec = codec_named("top_k:8:2:4");
  float input[8] = {1}, error[8] = {};
  std::byte bytes[16];
  tuttiCodecFeedback_t feedback{sizeof feedback, error, 8, 1, 0};
  const auto call = [&] { return tuttiCodecEncodeFeedback(&codec, input, 8, &feedback, bytes); };
  for (const float beta : {-0.1f, 1.1f, std::nanf("")}) {
    feedback.beta = beta;
    EXPECT_SAYS(call(), "give 0 to 1");
  }
  feedback.beta = 0.5f;
  error[3] = std::nanf("");
  EXPECT_SAYS(call(), "value 3 is not finite");
  error[3] = 0;
  feedback.count = 7;
  EXPECT_SAYS(call(), "a state belongs to one array");
  feedback.count = 8;
  feedback.error = nullptr;
  EXPECT_SAYS(call(), "feedback.error is null");
  feedback.size = 3;
  EXPECT_SAYS(call(), "size is 3");
  EXPECT_SAYS(tuttiCodecEncodeFeedback(&codec, input, 8, nullptr, bytes), "feedback is null");
}

}  // namespace
}  // namespace tutti::codecs
