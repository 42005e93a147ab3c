// Some numbers of ranks; slow_ranks_test.cc has all of them.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::ranks_test {
namespace {

TEST(Ranks, OneToTenAsThreads) {
  const auto outcome = testing_support::run_program("ranks", {"--from", "1", "--to", "10"}, 700);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Ranks, OneToTenAsProcesses) {
  const auto outcome =
      testing_support::run_program("ranks", {"--from", "1", "--to", "10", "--processes", "1"}, 700);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace tutti::ranks_test
