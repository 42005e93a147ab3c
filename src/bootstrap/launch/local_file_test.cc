#include "src/bootstrap/launch/local_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "src/base/clock.h"

namespace tutti::bootstrap {
namespace {

uint64_t in(uint64_t milliseconds) { return monotonic_ns() + milliseconds * 1'000'000; }

class LocalFileTest : public testing::Test {
 protected:
  LocalFileTest() {
    std::string pattern = testing::TempDir() + "tutti-local-file-XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/tutti";
  }
  ~LocalFileTest() override { std::filesystem::remove_all(root_); }

  Result<std::string> await(const std::string& name, uint64_t milliseconds) const {
    return LocalFile::await(folder_, name, 6, in(milliseconds));
  }

  /// What a process that was killed leaves behind.
  void leave_behind(const std::string& name, mode_t mode) const {
    mkdir(folder_.c_str(), 0700);
    std::ofstream(folder_ + "/" + name) << "oldold";
    chmod((folder_ + "/" + name).c_str(), mode);
  }

  std::string root_;
  std::string folder_;
};

TEST_F(LocalFileTest, HandsBytesOverAndLeavesNothing) {
  Result<std::string> got = Status::internal_error("did not run");
  std::thread waiting([&] { got = await("a", 60'000); });
  {
    const Result<LocalFile> file = LocalFile::post(folder_, "a", "secret");
    ASSERT_TRUE(file.ok()) << file.status().message();
    waiting.join();
    struct stat entry {};
    ASSERT_EQ(stat((folder_ + "/a").c_str(), &entry), 0);
    EXPECT_EQ(entry.st_mode & 0777, 0600u);
    ASSERT_EQ(stat(folder_.c_str(), &entry), 0);
    EXPECT_EQ(entry.st_mode & 0777, 0700u);
  }
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(got.value(), "secret");
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(LocalFileTest, ALeftoverIsNeitherReadNorInTheWay) {
  leave_behind("a", 0600);
  const Result<std::string> nothing = await("a", 20);
  EXPECT_EQ(nothing.status().code(), Code::kTimeout);
  EXPECT_NE(nothing.status().message().find("left over"), std::string_view::npos);
  const Result<LocalFile> file = LocalFile::post(folder_, "a", "secret");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(await("a", 1000).value(), "secret");
}

TEST_F(LocalFileTest, AKilledMakerIsNotBelieved) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<LocalFile> file = LocalFile::post(folder_, "a", "secret");
    const char done = file.ok() ? 'y' : 'n';
    [[maybe_unused]] const ssize_t count = write(ready[1], &done, 1);
    pause();
    _exit(0);
  }
  char done = 0;
  ASSERT_EQ(read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_EQ(await("a", 1000).value(), "secret");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(await("a", 20).status().code(), Code::kTimeout);
}

TEST_F(LocalFileTest, TwoLivingMakersAreTold) {
  const Result<LocalFile> first = LocalFile::post(folder_, "a", "secret");
  ASSERT_TRUE(first.ok());
  const Result<LocalFile> second = LocalFile::post(folder_, "a", "secret");
  EXPECT_EQ(second.status().code(), Code::kInvalidUsage);
  EXPECT_NE(second.status().message().find("another job"), std::string_view::npos);
  EXPECT_TRUE(LocalFile::post(folder_, "b", "secret").ok());
}

TEST_F(LocalFileTest, WhatOthersCouldHaveWrittenIsRefused) {
  leave_behind("open", 0644);
  EXPECT_NE(await("open", 1000).status().message().find("chmod 600"), std::string_view::npos);
  ASSERT_EQ(symlink("open", (folder_ + "/link").c_str()), 0);
  EXPECT_EQ(await("link", 1000).status().code(), Code::kSystemError);
  chmod(folder_.c_str(), 0755);
  EXPECT_NE(await("x", 1000).status().message().find("chmod 700"), std::string_view::npos);
  EXPECT_NE(LocalFile::post(folder_, "x", "secret").status().message().find("chmod 700"),
            std::string_view::npos);
}

TEST_F(LocalFileTest, ASymbolicLinkIsNoFolder) {
  const std::string elsewhere = root_ + "/elsewhere";
  mkdir(elsewhere.c_str(), 0700);
  ASSERT_EQ(symlink(elsewhere.c_str(), folder_.c_str()), 0);
  EXPECT_FALSE(LocalFile::post(folder_, "a", "secret").ok());
}

TEST_F(LocalFileTest, AnotherUsersFolderIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  mkdir(folder_.c_str(), 0700);
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  const Status status = LocalFile::post(folder_, "a", "secret").status();
  EXPECT_NE(status.message().find("belongs to user 65534"), std::string_view::npos);
}

TEST_F(LocalFileTest, TheRuntimeFolderIsUsedWhereItIsPrivate) {
  EXPECT_EQ(LocalFile::folder({{"XDG_RUNTIME_DIR", root_}}), root_ + "/tutti");
  const std::string own = "/tmp/tutti-" + std::to_string(geteuid());
  EXPECT_EQ(LocalFile::folder({}), own);
  EXPECT_EQ(LocalFile::folder({{"XDG_RUNTIME_DIR", "/does/not/exist"}}), own);
  chmod(root_.c_str(), 0755);
  EXPECT_EQ(LocalFile::folder({{"XDG_RUNTIME_DIR", root_}}), own);
}

}  // namespace
}  // namespace tutti::bootstrap
