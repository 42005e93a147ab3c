#include "src/bootstrap/host.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "src/base/config.h"

namespace tutti::bootstrap {
namespace {

TEST(Host, FingerprintIsStableAndOneWord) {
  const std::string id = host_fingerprint();
  EXPECT_EQ(id, host_fingerprint());
  EXPECT_EQ(id.find(' '), std::string::npos);
  EXPECT_LE(id.size(), 256u);
  Config config;
  config.host_id = "mine";
  EXPECT_EQ(host_id(config), "mine");
  EXPECT_EQ(host_id(Config{}), id);
}

TEST(Host, ANameOfTheMostCharactersThatLinuxAllowsIsShown) {
  constexpr int kNoName = 77;
  const std::string longest(64, 'a');
  const pid_t child = fork();
  if (child == 0) {
    const bool named =
        unshare(CLONE_NEWUTS) == 0 && sethostname(longest.data(), longest.size()) == 0;
    if (!named) _exit(kNoName);
    _exit(host_fingerprint().starts_with(longest + "-") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoName) GTEST_SKIP() << "this user may not name a host";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tutti::bootstrap
