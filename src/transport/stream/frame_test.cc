#include "src/transport/stream/frame.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::transport::stream {
namespace {

using Bytes = std::array<std::byte, kHeaderBytes>;

FrameHeader sample() {
  FrameHeader header;
  header.type = FrameType::kData;
  header.length = 77;
  header.channel = {0x1122334455667788, 9, 3};
  header.signature = 0xabcdef01;
  header.message_bytes = 1000;
  header.position = 0x100000001;
  return header;
}

TEST(StreamFrame, ComesBackAsItWent) {
  Bytes bytes{};
  encode(sample(), bytes.data());
  FrameHeader header;
  ASSERT_EQ(decode(bytes.data(), header), nullptr);
  EXPECT_EQ(header.type, FrameType::kData);
  EXPECT_EQ(header.length, 77u);
  EXPECT_EQ(header.channel, sample().channel);
  EXPECT_EQ(header.signature, 0xabcdef01u);
  EXPECT_EQ(header.message_bytes, 1000u);
  EXPECT_EQ(header.position, 0x100000001u);
}

TEST(StreamFrame, LayoutOnTheWireIsFixed) {
  Bytes bytes{};
  encode(sample(), bytes.data());
  EXPECT_EQ(bytes[0], std::byte{'T'});
  EXPECT_EQ(bytes[1], std::byte{'U'});
  EXPECT_EQ(bytes[2], std::byte{'F'});
  EXPECT_EQ(bytes[3], std::byte{1});
  EXPECT_EQ(bytes[4], std::byte{77});
  EXPECT_EQ(bytes[8], std::byte{0x88});
  EXPECT_EQ(bytes[16], std::byte{9});
  EXPECT_EQ(bytes[20], std::byte{3});
  EXPECT_EQ(bytes[24], std::byte{0x01});
}

const char* judge(const FrameHeader& header) {
  Bytes bytes{};
  encode(header, bytes.data());
  FrameHeader decoded;
  return decode(bytes.data(), decoded);
}

TEST(StreamFrame, NonsenseIsNamed) {
  FrameHeader header = sample();
  header.type = static_cast<FrameType>(99);
  EXPECT_STREQ(judge(header), "a frame of unknown type");

  header = sample();
  header.length = kMaxFrameBytes + 1;
  header.message_bytes = 1 << 30;
  EXPECT_STREQ(judge(header), "a frame is longer than allowed");

  header = sample();
  header.message_bytes = 10;
  EXPECT_STREQ(judge(header), "a frame is longer than its message");

  header = sample();
  header.length = 0;
  EXPECT_STREQ(judge(header), "a frame of a message is empty");

  header = sample();
  header.type = FrameType::kCredit;
  EXPECT_STREQ(judge(header), "a control frame has a payload");

  header.type = FrameType::kGet;
  EXPECT_STREQ(judge(header), "a control frame has a payload");

  header = sample();
  header.type = FrameType::kPut;
  EXPECT_STREQ(judge(header), "a put says two lengths");

  header = sample();
  header.type = FrameType::kKey;
  header.length = kMaxControlPayload + 1;
  EXPECT_STREQ(judge(header), "a place of memory has a wrong length");

  header.type = FrameType::kPlaced;
  EXPECT_STREQ(judge(header), "a placed frame has a wrong length");

  Bytes zeros{};
  EXPECT_STREQ(decode(zeros.data(), header), "bytes that are no frame");
}

}  // namespace
}  // namespace tutti::transport::stream
