// Ranks are `sleep` commands that a shell has started.
#include "src/bootstrap/launch/starter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "src/base/io.h"

namespace tutti::bootstrap {
namespace {

std::vector<std::string> place_of(int rank) {
  return {"RANK=" + std::to_string(rank), "WORLD_SIZE=2"};
}

/// A shell with a session of its own that says the numbers of the processes of two ranks, 0 and 1.
class Shell {
 public:
  explicit Shell(const std::string& script) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    said_ = Fd(ends[0]);
    shell_ = fork();
    if (shell_ == 0) {
      setsid();
      dup2(ends[1], STDOUT_FILENO);
      close(STDERR_FILENO);  // where it would tell who was killed
      execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    for (pid_t& rank : ranks_) rank = read_number();
  }
  ~Shell() {
    for (const pid_t rank : ranks_) {
      if (rank > 0) kill(rank, SIGKILL);
    }
    if (shell_ > 0) end();
  }

  Starter starter(int rank) const { return starter_of(ranks_[rank], place_of(rank)); }
  pid_t number() const { return shell_; }
  /// Its ranks go on.
  void end() {
    kill(shell_, SIGKILL);
    waitpid(std::exchange(shell_, 0), nullptr, 0);
  }

 private:
  pid_t read_number() const {
    std::string text;
    for (char letter = 0; read(said_.get(), &letter, 1) == 1 && letter != '\n';) text += letter;
    EXPECT_FALSE(text.empty());
    return text.empty() ? 0 : std::stoi(text);
  }

  Fd said_;
  pid_t shell_ = 0;
  pid_t ranks_[2] = {};
};

// The command says its number itself, so that it has its environment when that is read.
const std::string kRank = "sh -c 'echo $$; exec sleep 60 >&-'";
const std::string kLoop =
    "for r in 0 1; do RANK=$r WORLD_SIZE=2 " + kRank + " & sleep 0.05; done; wait";

TEST(Starter, OneLoopHasStartedBothAndAnotherOneHasNot) {
  const Shell one(kLoop), other(kLoop);
  EXPECT_EQ(one.starter(0).process.number, one.number());
  EXPECT_TRUE(one.starter(1).started_with(one.starter(0)));
  EXPECT_TRUE(one.starter(0).started_with(one.starter(1)));
  EXPECT_FALSE(one.starter(1).started_with(other.starter(0)));
}

TEST(Starter, WhatLiesBetweenIsTheRanks) {
  const Shell shell(
      "for r in 0 1; do RANK=$r WORLD_SIZE=2 timeout 60 sh -c "
      "'sh -c \"echo \\$\\$; exec sleep 60 >&-\"; true' & sleep 0.05; done; wait");
  EXPECT_EQ(shell.starter(0).process.number, shell.number());
  EXPECT_EQ(shell.starter(1).process.number, shell.number());
}

TEST(Starter, ASubshellIsTheShell) {
  const Shell shell("start() { RANK=$1 WORLD_SIZE=2 " + kRank +
                    "; true; }; start 0 & sleep 0.05; ( start 1; true ) & wait");
  EXPECT_EQ(shell.starter(0).process.number, shell.number());
  EXPECT_EQ(shell.starter(1).process.number, shell.number());
}

TEST(Starter, ARankMayHaveStartedTheOthers) {
  const Shell shell("echo $$; RANK=1 WORLD_SIZE=2 " + kRank + "; true");
  EXPECT_EQ(shell.starter(1).process.number, shell.number());
  EXPECT_NE(shell.starter(0).process.number, shell.number());
  EXPECT_TRUE(shell.starter(0).started_with(shell.starter(1)));
  EXPECT_TRUE(shell.starter(1).started_with(shell.starter(0)));
}

// One rank may have asked before the shell ended, the other one after that.
TEST(Starter, RanksWhoseShellHasEndedAreTheirSessions) {
  Shell one(kLoop), other(kLoop), lives(kLoop);
  const Starter before = one.starter(0);
  one.end();
  other.end();
  const Starter after = one.starter(1);
  EXPECT_EQ(after.process.number, 0);
  EXPECT_TRUE(after.known());
  EXPECT_TRUE(after.started_with(before));
  EXPECT_TRUE(before.started_with(after));
  EXPECT_FALSE(after.started_with(other.starter(0)));
  EXPECT_FALSE(after.started_with(lives.starter(0)));
}

TEST(Starter, GoesBothWaysAsText) {
  const Starter starter{{77, 1234567890123}, {78, 9}, 79};
  const auto read = Starter::decode(starter.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ(read->encode(), starter.encode());
  EXPECT_EQ(read->rank, starter.rank);
  EXPECT_EQ(read->session, 79);
  for (const char* wrong : {"", "1 2 3 4", "1 2 3 4 x", "1 2 3 4 5 6"}) {
    EXPECT_FALSE(Starter::decode(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace tutti::bootstrap
