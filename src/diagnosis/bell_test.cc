#include "src/diagnosis/bell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

namespace tutti::diagnosis {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

bool rings(const Bell& bell) {
  pollfd entry{bell.fd(), POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

// A peer decides how often it sends: what it makes this rank keep must not grow with that.
TEST(Bell, WhoeverRingsOftenIsThereOnce) {
  Bell bell(3);
  ASSERT_TRUE(bell.open().ok());
  constexpr int kTimes = 1000;
  for (int time = 0; time < kTimes; ++time) bell.ring(2);
  bell.ring(0);
  bell.ring(2);
  EXPECT_THAT(bell.answer(), ElementsAre(2, 0));
  EXPECT_THAT(bell.answer(), IsEmpty());
}

TEST(Bell, WhoWasAnsweredIsHeardAgain) {
  Bell bell(2);
  ASSERT_TRUE(bell.open().ok());
  EXPECT_FALSE(rings(bell));
  for (int time = 0; time < 2; ++time) {
    bell.ring(1);
    EXPECT_TRUE(rings(bell));
    EXPECT_THAT(bell.answer(), ElementsAre(1));
    EXPECT_FALSE(rings(bell));
  }
}

TEST(Bell, WhoRingsBeforeItIsOpenIsAnswered) {
  Bell bell(2);
  bell.ring(1);
  ASSERT_TRUE(bell.open().ok());
  EXPECT_THAT(bell.answer(), ElementsAre(1));
}

}  // namespace
}  // namespace tutti::diagnosis
