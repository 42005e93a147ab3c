#include "perf/collectives/datatypes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

/// The element's bits as an integer.
uint64_t bits_of(tuttiDataType_t id, double value) {
  std::byte element[8] = {};
  encode(data_type(id), value, element);
  uint64_t bits = 0;
  std::memcpy(&bits, element, data_type(id).bytes);
  return bits;
}

TEST(DataTypes, KnownBitPatterns) {
  EXPECT_EQ(bits_of(tuttiFloat16, 1), 0x3C00u);
  EXPECT_EQ(bits_of(tuttiFloat16, -2), 0xC000u);
  EXPECT_EQ(bits_of(tuttiFloat16, 65504), 0x7BFFu);
  EXPECT_EQ(bits_of(tuttiFloat16, std::ldexp(1, -24)), 0x0001u);
  EXPECT_EQ(bits_of(tuttiBfloat16, 1), 0x3F80u);
  EXPECT_EQ(bits_of(tuttiBfloat16, -3), 0xC040u);
  EXPECT_EQ(bits_of(tuttiFloat8e4m3, 1), 0x38u);
  EXPECT_EQ(bits_of(tuttiFloat8e4m3, 448), 0x7Eu);
  EXPECT_EQ(bits_of(tuttiFloat8e4m3, std::ldexp(1, -9)), 0x01u);
  EXPECT_EQ(bits_of(tuttiFloat8e5m2, 1), 0x3Cu);
  EXPECT_EQ(bits_of(tuttiFloat8e5m2, 57344), 0x7Bu);
  EXPECT_EQ(bits_of(tuttiFloat32, 1), 0x3F800000u);
  EXPECT_EQ(bits_of(tuttiInt8, -1), 0xFFu);
  EXPECT_EQ(bits_of(tuttiFloat32, 0), 0u);
  EXPECT_EQ(bits_of(tuttiInt16, -2), 0xFFFEu);
  EXPECT_EQ(bits_of(tuttiUint16, 65535), 0xFFFFu);
  EXPECT_EQ(bits_of(tuttiBool, 1), 1u);
}

TEST(DataTypes, EverySmallFloatSurvivesDecodeAndEncode) {
  for (const tuttiDataType_t id : {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2}) {
    const DataType& type = data_type(id);
    for (uint32_t bits = 0; bits < 1u << (8 * type.bytes); ++bits) {
      std::byte element[8] = {};
      std::memcpy(element, &bits, type.bytes);
      const double value = decode(type, element);
      if (!std::isfinite(value)) continue;
      EXPECT_EQ(bits_of(id, value), bits) << type.name;
    }
  }
}

TEST(DataTypes, InfinitiesAndNans) {
  const auto decoded = [](tuttiDataType_t id, uint32_t bits) {
    std::byte element[8] = {};
    std::memcpy(element, &bits, sizeof bits);
    return decode(data_type(id), element);
  };
  EXPECT_TRUE(std::isinf(decoded(tuttiFloat16, 0x7C00)));
  EXPECT_TRUE(std::isnan(decoded(tuttiFloat16, 0x7C01)));
  EXPECT_TRUE(std::isinf(decoded(tuttiFloat8e5m2, 0x7C)));
  EXPECT_EQ(decoded(tuttiFloat8e4m3, 0x7E), 448);  // the format has no infinity
  EXPECT_TRUE(std::isnan(decoded(tuttiFloat8e4m3, 0x7F)));
}

TEST(DataTypes, Names) {
  EXPECT_EQ(parse_data_types("all").size(), all_data_types().size());
  EXPECT_EQ(parse_data_types("half"), std::vector{tuttiFloat16});
  EXPECT_EQ(parse_reduce_ops("avg"), std::vector{tuttiAvg});
  EXPECT_EQ(parse_reduce_ops("mulsum"), std::vector{kMulSum});
  EXPECT_EQ(parse_reduce_ops("all").size(), 9u);
  EXPECT_THROW(parse_data_types("float128"), PerfError);
  EXPECT_THROW(parse_reduce_ops(""), PerfError);
}

}  // namespace
}  // namespace tutti::perf
