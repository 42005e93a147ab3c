#include "src/base/member_id.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(MemberId, ComesBackFromItsText) {
  const MemberId id{{0x0123456789abcdef, 7}, 2};
  EXPECT_EQ(to_text(id), "0123456789abcdef0000000000000007:2");
  EXPECT_EQ(read_member_id(to_text(id)), id);
  const MemberId unnumbered{{1, ~uint64_t{0}}, MemberId::kNoNumber};
  EXPECT_EQ(to_text(unnumbered), "0000000000000001ffffffffffffffff:-");
  EXPECT_EQ(read_member_id(to_text(unnumbered)), unnumbered);
}

TEST(MemberId, NothingElseIsRead) {
  const std::string process(32, '1');
  EXPECT_TRUE(read_member_id(process + ":0"));
  for (const std::string text : {"", ":", "1:1", "-:1"}) EXPECT_FALSE(read_member_id(text)) << text;
  for (const std::string tail : {"", ":", ":x", ":-1", ":1 ", ":4294967295", ":4294967296"}) {
    EXPECT_FALSE(read_member_id(process + tail)) << tail;
  }
  EXPECT_FALSE(read_member_id(std::string(31, '1') + "g:1"));
  EXPECT_FALSE(read_process_id(std::string(33, '1')));
}

}  // namespace
}  // namespace tutti
