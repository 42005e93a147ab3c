// Ranks that connect when they first talk hold few connections, and those that connect at once all.
#include <gtest/gtest.h>

#include "tests/support/subprocess.h"

namespace tutti::ranks_test {
namespace {

void expect_connections(const std::string& ranks, const std::string& lazy) {
  const auto outcome =
      testing_support::run_program("connections", {"--ranks", ranks, "--lazy", lazy}, 300);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

TEST(Connections, EightRanks) { expect_connections("8", "1"); }
TEST(Connections, SixteenRanks) { expect_connections("16", "1"); }
TEST(Connections, SixtyFourRanks) { expect_connections("64", "1"); }
TEST(Connections, EightRanksAtOnce) { expect_connections("8", "0"); }
TEST(Connections, SixtyFourRanksAtOnce) { expect_connections("64", "0"); }

// With 50 communicators as with one; and when some end, fail or are aborted.
TEST(Connections, AreSharedByCommunicators) {
  const auto outcome = testing_support::run_program("shared_connections", {}, 300);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
}

}  // namespace
}  // namespace tutti::ranks_test
