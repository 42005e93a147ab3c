// Every value of every narrow float, and every point between two of them where rounding turns over.
#include <gtest/gtest.h>
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "src/types/instruction_sets.h"
#include "src/types/kernels.h"
#include "src/types/reference_fold.h"

namespace tutti::types {
namespace {

using reference::Format;
using reference::Raw;

constexpr DataType kNarrow[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8E4M3,
                                DataType::kFloat8E5M2};
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The code that a kernel stores for a value: one, which every type has, scaled by it.
Raw code_of(DataType type, float value) {
  const Raw one = reference::format_of(type)->encode(1);
  const auto* const source = reinterpret_cast<const std::byte*>(&one);
  std::byte element[2] = {};
  std::byte* const target = element;
  const uint64_t scaled = 1;
  fold_kernel({.type = type, .source_count = 1, .scaled = true})(
      {&target, &source, 1, 1, 1, &scaled, value});
  return reference::load(type, element);
}

float value_of(DataType type, Raw code) {
  return to_float(type, reinterpret_cast<const std::byte*>(&code));
}

class FloatConversion : public testing::TestWithParam<DataType> {};

INSTANTIATE_TEST_SUITE_P(Types, FloatConversion, testing::ValuesIn(kNarrow),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(FloatConversion, EveryCodeDecodesAndReturns) {
  const Format& format = *reference::format_of(GetParam());
  for (Raw code = 0; code < Raw{1} << 8 * size_of(GetParam()); ++code) {
    const float value = value_of(GetParam(), code);
    const double expected = format.decode(code);
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << code;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << code;
    ASSERT_EQ(code_of(GetParam(), value), format.encode(expected)) << code;
    if (std::isnan(value)) continue;
    ASSERT_EQ(value, expected) << code;
    const bool saturates = std::isinf(value) && !format.overflows();
    if (!saturates) {
      ASSERT_EQ(code_of(GetParam(), value), code);
    }
  }
}

// The kernels convert with vectors of their own: the larger of x and x is x, and one scaled source
// shows how a value between two codes is rounded.
TEST_P(FloatConversion, KernelsConvertTheSame) {
  const Format& format = *reference::format_of(GetParam());
  const size_t count = size_t{1} << 8 * size_of(GetParam());
  std::vector<std::byte> all(count * size_of(GetParam())), result(all.size());
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(all.data() + i * size_of(GetParam()), &i, size_of(GetParam()));
  }
  const std::byte* const in[] = {all.data(), all.data()};
  std::byte* const out = result.data();
  const auto code_at = [&](Raw i) {
    return reference::load(GetParam(), out + i * size_of(GetParam()));
  };
  const uint64_t scaled = 1;
  for_each_instruction_set([&] {
    for (const float scale : {1.0f, 1.0625f, 0.3f, 0x1p-5f, 0x1p9f, 1000.0f}) {
      fold_kernel({.type = GetParam(), .source_count = 1, .scaled = true})(
          {&out, in, 1, 1, count, &scaled, scale});
      for (Raw code = 0; code < count; ++code) {
        ASSERT_EQ(code_at(code), format.encode(value_of(GetParam(), code) * scale)) << code;
      }
    }
    fold_kernel({.type = GetParam(), .op = ReduceOp::kMax})({&out, in, 1, 2, count});
    for (Raw code = 0; code < count; ++code) {
      ASSERT_EQ(code_at(code), format.encode(value_of(GetParam(), code))) << code;
    }
  });
}

TEST_P(FloatConversion, RoundsToNearestEven) {
  const Format& format = *reference::format_of(GetParam());
  for (Raw code = 0; code + 1 < format.codes(); ++code) {
    const double middle = (format.value(code) + format.value(code + 1)) / 2;
    const float tie = static_cast<float>(middle);  // a bfloat16 has subnormals below those of float
    for (const float value : {tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInfinity)}) {
      ASSERT_EQ(code_of(GetParam(), value), format.encode(value)) << value;
      ASSERT_EQ(code_of(GetParam(), -value), format.encode(-value)) << -value;
    }
  }
}

#if defined(__SSE2__)
// A program may have told the processor to treat subnormal floats as zero. That is no reason to
// lose subnormals of narrower formats, which are normal floats.
TEST_P(FloatConversion, KeepsSubnormalsWhereFloatsLoseThem) {
  if (GetParam() == DataType::kBfloat16) return;  // its subnormals are those of float
  const size_t size = size_of(GetParam());
  const size_t count = size_t{1} << (size == 2 ? 11 : 4);  // subnormals, and the least normals
  std::vector<std::byte> codes(count * size), result(codes.size());
  for (size_t i = 0; i < count; ++i) std::memcpy(codes.data() + i * size, &i, size);
  const std::byte* const in[] = {codes.data(), codes.data()};
  std::byte* const out = result.data();
  for_each_instruction_set([&] {
    const auto kernel = fold_kernel({.type = GetParam(), .op = ReduceOp::kMax});
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);  // flush to zero, denormals are zero
    kernel({&out, in, 1, 2, count});
    const float least = value_of(GetParam(), 1);
    const Raw least_code = code_of(GetParam(), least);
    _mm_setcsr(before);
    EXPECT_EQ(result, codes);
    EXPECT_GT(least, 0.0f);
    EXPECT_EQ(least_code, 1u);
  });
}
#endif

TEST(FloatEdges, TooLargeValues) {
  EXPECT_EQ(code_of(DataType::kFloat16, 65519.0f), 0x7BFFu);
  EXPECT_EQ(code_of(DataType::kFloat16, 65520.0f), 0x7C00u);
  EXPECT_EQ(code_of(DataType::kBfloat16, std::numeric_limits<float>::max()), 0x7F80u);
  EXPECT_EQ(code_of(DataType::kFloat16, -kInfinity), 0xFC00u);
  EXPECT_EQ(code_of(DataType::kBfloat16, kInfinity), 0x7F80u);
  for (const float large : {449.0f, 480.0f, 1e30f, kInfinity}) {
    EXPECT_EQ(value_of(DataType::kFloat8E4M3, code_of(DataType::kFloat8E4M3, large)), 448.0f);
    EXPECT_EQ(value_of(DataType::kFloat8E4M3, code_of(DataType::kFloat8E4M3, -large)), -448.0f);
  }
  EXPECT_EQ(value_of(DataType::kFloat8E5M2, code_of(DataType::kFloat8E5M2, kInfinity)), 57344.0f);
  EXPECT_EQ(value_of(DataType::kFloat8E5M2, 0xFC), -kInfinity);  // it is read as what it is
}

TEST(FloatEdges, EveryNanBecomesOne) {
  for (const float nan : {kNan, -kNan}) {
    EXPECT_EQ(code_of(DataType::kFloat16, nan), 0x7E00u);
    EXPECT_EQ(code_of(DataType::kBfloat16, nan), 0x7FC0u);
    EXPECT_EQ(code_of(DataType::kFloat8E4M3, nan), 0x7Fu);
    EXPECT_EQ(code_of(DataType::kFloat8E5M2, nan), 0x7Eu);
  }
}

TEST(FloatEdges, IntegersAreRead) {
  EXPECT_EQ(value_of(DataType::kInt8, 0x80), -128.0f);
  EXPECT_EQ(value_of(DataType::kUint32, 0xFFFFFFFF), 4294967296.0f);
}

}  // namespace
}  // namespace tutti::types
