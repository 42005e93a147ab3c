#include "src/topology/text_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "src/base/io.h"

namespace tutti::topology {
namespace {

namespace fs = std::filesystem;

class TextFile : public testing::Test {
 protected:
  TextFile() {
    std::string pattern = testing::TempDir() + "tutti-text-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~TextFile() override { fs::remove_all(root_); }

  std::string path(const char* name) const { return root_ + "/" + name; }
  std::string content(const char* name) const { return read_text_file(path(name)).value(); }
  static mode_t mode_of(const std::string& path) {
    struct stat found {};
    EXPECT_EQ(lstat(path.c_str(), &found), 0);
    return found.st_mode;
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(root_), {}));
  }

  std::string root_;
};

TEST_F(TextFile, ANewOneAndOneThatIsReplaced) {
  ASSERT_TRUE(write_text_file(path("file"), "first, longer").ok());
  ASSERT_EQ(chmod(path("file").c_str(), 0640), 0);
  ASSERT_TRUE(write_text_file(path("file"), "second").ok());
  EXPECT_EQ(content("file"), "second");
  EXPECT_EQ(mode_of(path("file")) & 07777, 0640u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(TextFile, ALinkStaysAndItsTargetIsWritten) {
  std::ofstream(path("target")) << "old, longer";
  ASSERT_EQ(chmod(path("target").c_str(), 0600), 0);
  fs::create_symlink("target", path("link"));
  ASSERT_TRUE(write_text_file(path("link"), "new").ok());
  EXPECT_TRUE(S_ISLNK(mode_of(path("link"))));
  EXPECT_EQ(content("target"), "new");
  EXPECT_EQ(mode_of(path("target")) & 07777, 0600u);
  EXPECT_EQ(files(), 2u);
}

TEST_F(TextFile, APipeIsWrittenIntoIfSomebodyReadsIt) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(write_text_file(path("pipe"), "nobody reads").ok());
  const std::string text(300'000, 'x');  // more than a pipe holds
  const Fd reader(open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK));
  std::thread writer([&] { EXPECT_TRUE(write_text_file(path("pipe"), text).ok()); });
  std::string got;
  char piece[4096];
  while (got.size() < text.size()) {
    const ssize_t count = read(reader.get(), piece, sizeof piece);
    if (count > 0) got.append(piece, static_cast<size_t>(count));
    if (count <= 0) std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(got, text);
  EXPECT_TRUE(S_ISFIFO(mode_of(path("pipe"))));
}

TEST_F(TextFile, ADeviceStays) {
  const dev_t null = makedev(1, 3), full = makedev(1, 7);
  if (mknod(path("null").c_str(), S_IFCHR | 0666, null) != 0 ||
      mknod(path("full").c_str(), S_IFCHR | 0666, full) != 0 ||
      !Fd(open(path("null").c_str(), O_WRONLY)).valid()) {
    GTEST_SKIP() << "no devices can be made here";
  }
  EXPECT_TRUE(write_text_file(path("null"), "text").ok());
  EXPECT_TRUE(S_ISCHR(mode_of(path("null"))));
  const Status status = write_text_file(path("full"), "text");
  EXPECT_NE(status.message().find("No space left"), std::string_view::npos) << status.message();
  EXPECT_TRUE(S_ISCHR(mode_of(path("full"))));
}

TEST_F(TextFile, WhatCannotBeWrittenIsNamed) {
  const Status status = write_text_file(path("none/file"), "text");
  EXPECT_EQ(status.message().find(path("none/file") + ": "), 0u) << status.message();
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace tutti::topology
