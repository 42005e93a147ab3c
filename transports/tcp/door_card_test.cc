// Cards of doors: the ranks that are reached, and the sentence where none is.
#include "transports/tcp/door_card.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::transports::tcp {
namespace {

constexpr std::string_view kTag = "tutti-verbs-1";

TEST(DoorCards, AreReadAsTheyWereWritten) {
  DoorCard card;
  card.endpoint = parse_endpoint("10.1.2.3", 4000).value();
  card.kind = "ipv4";
  card.host_id = std::string(1000, 'h');
  const auto read = DoorCard::read(kTag, card.write(kTag));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->endpoint.text(), "10.1.2.3:4000");
  EXPECT_TRUE(read->reaches(card) && card.reaches(*read));
  DoorCard other = card;
  other.fabric = "blue";
  EXPECT_FALSE(card.reaches(other));
  EXPECT_TRUE(other.reaches(*DoorCard::read(kTag, other.write(kTag))));
  other = card;
  other.kind = "ipv6";
  EXPECT_FALSE(card.reaches(other));
}

TEST(DoorCards, ThatReachNobodySayWhy) {
  DoorCard none;
  none.absence = "this host has no RDMA card " + std::string(1000, '!');
  const auto read = DoorCard::read(kTag, none.write(kTag));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->absence.find("this host has no RDMA card"), 0u);
  EXPECT_EQ(read->neighborhood(), "");
  EXPECT_FALSE(read->reaches(*read));
}

TEST(DoorCards, NonsenseIsNone) {
  for (const char* text : {"", "tutti-verbs-1", "tutti-verbs-1 none", "tutti-verbs-1 none ",
                           "tutti-tcp-2 10.0.0.1 1 h", "tutti-verbs-1 10.0.0.1 0 ipv4 - h",
                           "tutti-verbs-1 10.0.0.1 1 ipv4 -", "tutti-verbs-1 host 1 ipv4 - h",
                           "tutti-verbs-1 10.0.0.1 70000 ipv4 - h"}) {
    EXPECT_FALSE(DoorCard::read(kTag, text)) << text;
  }
}

}  // namespace
}  // namespace tutti::transports::tcp
