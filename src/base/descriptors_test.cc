#include "src/base/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>

namespace tutti {
namespace {

/// In a child: limits are a process's, and a hard one never comes back.
int in_child(rlim_t soft, rlim_t hard, const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{soft, hard};
    _exit(setrlimit(RLIMIT_NOFILE, &limit) == 0 && check() ? 0 : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

bool has_soft(uint64_t wanted) { return descriptor_limits().soft == wanted; }

TEST(Descriptors, TheSoftLimitIsRaisedNoFurtherThanTheHardOne) {
  EXPECT_EQ(in_child(256, 1000, [] { return raise_descriptor_limit(256) && has_soft(256); }), 0);
  EXPECT_EQ(in_child(256, 1000, [] { return raise_descriptor_limit(257) && has_soft(1000); }), 0);
  EXPECT_EQ(in_child(256, 1000, [] { return !raise_descriptor_limit(2000) && has_soft(1000); }), 0);
}

TEST(Descriptors, ClaimsOfSeveralThreadsAddUp) {
  EXPECT_EQ(in_child(1000, 4000,
                     [] {
                       Logger log(LogLevel::kOff);
                       DescriptorRoom room(log);
                       const DescriptorRoom::Claim first(room, 600);
                       const bool kept = has_soft(1000);
                       const DescriptorRoom::Claim second(room, 600);
                       return kept && has_soft(4000) && second.shortage().empty();
                     }),
            0);
  // A claim that is given back does not count any more.
  EXPECT_EQ(in_child(1000, 4000,
                     [] {
                       Logger log(LogLevel::kOff);
                       DescriptorRoom room(log);
                       for (int i = 0; i < 5; ++i) const DescriptorRoom::Claim claim(room, 600);
                       return has_soft(1000);
                     }),
            0);
}

TEST(Descriptors, AShortageNamesWhatIsNeeded) {
  EXPECT_EQ(in_child(256, 500,
                     [] {
                       Logger log(LogLevel::kOff);
                       DescriptorRoom room(log);
                       const DescriptorRoom::Claim claim(room, 600);
                       const std::string& text = claim.shortage();
                       return has_soft(500) && text.find("the hard limit is 500") != text.npos;
                     }),
            0);
}

TEST(Descriptors, WhereNoneIsLeftARoomIsMadeAllTheSame) {
  EXPECT_EQ(in_child(64, 500,
                     [] {
                       while (dup(STDOUT_FILENO) >= 0) {
                       }
                       Logger log(LogLevel::kOff);
                       DescriptorRoom room(log);
                       const DescriptorRoom::Claim claim(room, 1);
                       return has_soft(500) && claim.shortage().empty();
                     }),
            0);
}

TEST(Descriptors, AnErrorSaysWhichLimitToRaise) {
  EXPECT_EQ(in_child(256, 500,
                     [] {
                       return errno_text(EMFILE) ==
                              "Too many open files (this process may have 256: raise ulimit -n; "
                              "its hard limit is 500)";
                     }),
            0);
  EXPECT_NE(errno_text(ENFILE).find("fs.file-max"), std::string::npos);
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory");
}

}  // namespace
}  // namespace tutti
