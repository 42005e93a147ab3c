#include "src/base/per_thread.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace tutti {
namespace {

TEST(PerThread, EachThreadAndTagHasAnObject) {
  std::string& mine = PerThread<std::string, struct OneTag>::get();
  mine = "mine";
  EXPECT_EQ(&(PerThread<std::string, struct OneTag>::get()), &mine);
  EXPECT_EQ((PerThread<std::string, struct OtherTag>::get()), "");
  std::thread([] { EXPECT_EQ((PerThread<std::string, struct OneTag>::get()), ""); }).join();
  EXPECT_EQ(mine, "mine");
}

int made = 0, freed = 0;

struct Counted {
  Counted() { ++made; }
  ~Counted() { ++freed; }
};

/// As a client's: it is destroyed when ours would be if it were a thread_local, too.
struct AsksWhenItEnds {
  ~AsksWhenItEnds() {
    PerThread<Counted>::get();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(freed, 0);
  }
};

TEST(PerThread, OutlivesTheThreadLocals) {
  std::thread([] {
    thread_local AsksWhenItEnds asks;
    (void)&asks;
    PerThread<Counted>::get();
  }).join();
  EXPECT_EQ(made, 1);
  EXPECT_EQ(freed, 1);
}

int asked = 0, ended = 0;

/// Asks for another of its kind, once.
struct AsksAgain {
  ~AsksAgain() {
    ++ended;
    if (asked++ == 0) PerThread<AsksAgain>::get();
  }
};

TEST(PerThread, AUseAfterTheEndMakesAnother) {
  std::thread([] { PerThread<AsksAgain>::get(); }).join();
  EXPECT_EQ(ended, 2);
}

}  // namespace
}  // namespace tutti
