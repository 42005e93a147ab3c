// The text form of which levels encode.
#include "src/codecs/wire.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::codecs {
namespace {

TEST(WireOption, IsReadAndWrittenWithAllNumbers) {
  const Result<WireOption> read = parse_wire("network:int8_block,region:e3m0:16,always");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(wire_text(read.value()), "always,network:int8_block:256,region:e3m0:16");
  EXPECT_EQ(parse_wire(wire_text(read.value())).value(), read.value());
  EXPECT_EQ(wire_text(parse_wire("").value()), "");
}

TEST(WireOption, MistakesAreNamed) {
  const auto refused = [](const char* text) {
    const Result<WireOption> read = parse_wire(text);
    return read.ok() ? std::string("accepted") : std::string(read.status().message());
  };
  EXPECT_NE(refused("network").find("is no level and codec"), std::string::npos);
  EXPECT_NE(refused("network:int9").find("there is no codec 'int9'"), std::string::npos);
  EXPECT_NE(refused("network:bf16,network:fp16").find("has two codecs"), std::string::npos);
  EXPECT_NE(refused("always").find("names no level"), std::string::npos);
  EXPECT_NE(refused("network:int8_block:131072").find("at most 65536"), std::string::npos);
  EXPECT_NE(refused("a:int8_block:24,b:int4_block:16").find("a multiple of the shorter"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::codecs
