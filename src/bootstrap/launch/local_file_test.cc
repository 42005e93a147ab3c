#include "src/bootstrap/launch/local_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace tutti::bootstrap {
namespace {

class LocalFileTest : public testing::Test {
 protected:
  LocalFileTest() {
    std::string pattern = testing::TempDir() + "tutti-local-file-XXXXXX";
    root_ = mkdtemp(pattern.data());
    folder_ = root_ + "/tutti";
  }
  ~LocalFileTest() override { std::filesystem::remove_all(root_); }

  /// All that living processes have posted under names that begin so; or the text of an error.
  std::vector<std::string> posted(const std::string& prefix) const {
    const Result<LocalFile::Found> found = LocalFile::find(folder_, prefix);
    if (!found.ok()) return {std::string(found.status().message())};
    std::vector<std::string> bytes;
    for (const LocalFile::FoundFile& file : found.value().posted) bytes.push_back(file.bytes);
    return bytes;
  }

  bool finds_leftovers(const std::string& prefix) const {
    const Result<LocalFile::Found> found = LocalFile::find(folder_, prefix);
    return found.ok() && found.value().leftovers;
  }

  std::string refusal(const std::string& prefix) const {
    return std::string(LocalFile::find(folder_, prefix).status().message());
  }

  /// Leaves a file behind as a process does that was killed.
  void leave_behind(const std::string& name, mode_t mode) const {
    mkdir(folder_.c_str(), 0700);
    std::ofstream(folder_ + "/" + name) << "oldold";
    chmod((folder_ + "/" + name).c_str(), mode);
  }

  std::string root_;
  std::string folder_;
};

const std::vector<std::string> kNothing, kSecret = {"secret"};

TEST_F(LocalFileTest, HandsBytesOverAndLeavesNothing) {
  {
    const Result<LocalFile> file = LocalFile::post(folder_, "a-", "secret");
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(posted("a-"), kSecret);
    EXPECT_EQ(posted("b-"), kNothing);
    struct stat entry {};
    ASSERT_EQ(stat(folder_.c_str(), &entry), 0);
    EXPECT_EQ(entry.st_mode & 0777, 0700u);
    for (const auto& one : std::filesystem::directory_iterator(folder_)) {
      ASSERT_EQ(stat(one.path().c_str(), &entry), 0);
      EXPECT_EQ(entry.st_mode & 0777, 0600u);
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(LocalFileTest, WhoWaitsInVainLeavesNoFolder) {
  EXPECT_EQ(posted("a-"), kNothing);
  EXPECT_TRUE(std::filesystem::exists(folder_));
  LocalFile::leave(folder_);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

TEST_F(LocalFileTest, ALeftoverIsNeitherReadNorInTheWay) {
  leave_behind("a-1", 0600);
  EXPECT_EQ(posted("a-"), kNothing);
  EXPECT_TRUE(finds_leftovers("a-"));
  const Result<LocalFile> file = LocalFile::post(folder_, "a-", "secret");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(posted("a-"), kSecret);
  EXPECT_FALSE(finds_leftovers("a-")) << "who posts removes them";
}

TEST_F(LocalFileTest, WhatSeveralHavePostedIsFound) {
  const Result<LocalFile> first = LocalFile::post(folder_, "a-", "secret");
  const Result<LocalFile> second = LocalFile::post(folder_, "a-", "secret");
  EXPECT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(posted("a-").size(), 2u);
}

// As with readOnlyRootFilesystem of Kubernetes. Ranks that only read learn it, too: they would wait
// for ever.
TEST_F(LocalFileTest, AFolderThatCannotBeMadeIsAnErrorForAllThatSaysWhatToDo) {
  folder_ = "/proc/tutti";
  const std::string posts = std::string(LocalFile::post(folder_, "a-", "").status().message());
  for (const std::string& text : {posts, refusal("a-")}) {
    EXPECT_NE(text.find("'/proc/tutti'"), std::string::npos) << text;
    EXPECT_NE(text.find("set XDG_RUNTIME_DIR"), std::string::npos) << text;
  }
}

TEST_F(LocalFileTest, AKilledMakerIsNotBelieved) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const Result<LocalFile> file = LocalFile::post(folder_, "a-", "secret");
    const char done = file.ok() ? 'y' : 'n';
    [[maybe_unused]] const ssize_t count = write(ready[1], &done, 1);
    pause();
    _exit(0);
  }
  char done = 0;
  ASSERT_EQ(read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 'y');
  EXPECT_EQ(posted("a-"), kSecret);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
  EXPECT_EQ(posted("a-"), kNothing);
}

TEST_F(LocalFileTest, WhatOthersCouldHaveWrittenIsRefused) {
  leave_behind("open", 0644);
  EXPECT_NE(refusal("open").find("chmod 600"), std::string::npos);
  ASSERT_EQ(symlink("open", (folder_ + "/link").c_str()), 0);
  EXPECT_EQ(LocalFile::find(folder_, "link").status().code(), Code::kSystemError);
  chmod(folder_.c_str(), 0755);
  EXPECT_NE(refusal("x").find("chmod 700"), std::string::npos);
  EXPECT_NE(LocalFile::post(folder_, "x", "secret").status().message().find("chmod 700"),
            std::string_view::npos);
}

TEST_F(LocalFileTest, ASymbolicLinkIsNoFolder) {
  const std::string elsewhere = root_ + "/elsewhere";
  mkdir(elsewhere.c_str(), 0700);
  ASSERT_EQ(symlink(elsewhere.c_str(), folder_.c_str()), 0);
  EXPECT_FALSE(LocalFile::post(folder_, "a-", "secret").ok());
}

TEST_F(LocalFileTest, AnotherUsersFolderIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a folder of another user";
  mkdir(folder_.c_str(), 0700);
  ASSERT_EQ(chown(folder_.c_str(), 65534, 65534), 0);
  const Status status = LocalFile::post(folder_, "a-", "secret").status();
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
