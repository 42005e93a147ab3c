#include "src/transport/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "src/base/io.h"
#include "src/transport/memory_handle.h"

namespace tutti::transport {
namespace {

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

size_t mappings_of(const std::string& label) {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(label) != std::string::npos ? 1 : 0;
  }
  return count;
}

TEST(Arena, IsSealedSparseAndZero) {
  constexpr size_t kBytes = size_t{1} << 30;
  Result<Arena> arena = Arena::create("tutti-sealed", kBytes);
  ASSERT_TRUE(arena.ok()) << arena.status().message();
  EXPECT_EQ(arena.value().bytes(), kBytes);
  EXPECT_EQ(arena.value().data()[kBytes - 1], std::byte{0});
  EXPECT_EQ(mappings_of("tutti-sealed"), 1u);
  EXPECT_LT(ftruncate(arena.value().fd(), 4096), 0);
  EXPECT_LT(ftruncate(arena.value().fd(), static_cast<off_t>(2 * kBytes)), 0);
  EXPECT_LT(fcntl(arena.value().fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_EQ(fcntl(arena.value().fd(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  struct stat file {};
  ASSERT_EQ(fstat(arena.value().fd(), &file), 0);
  EXPECT_LT(file.st_blocks, 1024) << "only what was touched takes memory";
}

TEST(Arena, AdoptedIsTheSameMemory) {
  Result<Arena> mine = Arena::create("tutti-adopt", 10000);
  ASSERT_TRUE(mine.ok());
  Result<Arena> theirs = Arena::adopt(dup(mine.value().fd()), 10000);
  ASSERT_TRUE(theirs.ok()) << theirs.status().message();
  theirs.value().close_descriptor();
  EXPECT_EQ(theirs.value().fd(), -1);
  mine.value().data()[9999] = std::byte{42};
  EXPECT_EQ(theirs.value().data()[9999], std::byte{42});
}

// The thread sanitizer, too, has to see it.
TEST(Arena, AFlagOrdersThroughEveryMapping) {
  Result<Arena> mine = Arena::create("tutti-flag", 4096);
  ASSERT_TRUE(mine.ok()) << mine.status().message();
  Result<Arena> theirs = Arena::adopt(fcntl(mine.value().fd(), F_DUPFD_CLOEXEC, 0), 4096);
  ASSERT_TRUE(theirs.ok()) << theirs.status().message();
  const auto flag_of = [](const Arena& arena) -> std::atomic<uint32_t>& {
    return *reinterpret_cast<std::atomic<uint32_t>*>(arena.data());
  };
  int message = 0;
  std::thread writer([&] {
    message = 7;
    flag_of(mine.value()).store(1, std::memory_order_release);
  });
  while (flag_of(theirs.value()).load(std::memory_order_acquire) == 0) sched_yield();
  EXPECT_EQ(message, 7);
  writer.join();
}

TEST(Arena, NothingLeaksAndMovingKeepsOneOwner) {
  const size_t before = open_descriptors();
  {
    Arena kept;
    for (int i = 0; i < 10; ++i) {
      Result<Arena> arena = Arena::create("tutti-leak", 4096);
      ASSERT_TRUE(arena.ok());
      kept = std::move(arena).value();
      Arena moved(std::move(kept));
      EXPECT_EQ(kept.data(), nullptr);  // NOLINT(bugprone-use-after-move): this is what is tested
      kept = std::move(moved);
      EXPECT_NE(kept.data(), nullptr);
    }
    EXPECT_EQ(mappings_of("tutti-leak"), 1u);
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(mappings_of("tutti-leak"), 0u);
}

TEST(Arena, UnsealedWrongOrForeignDescriptorsAreRefusedAndClosed) {
  const size_t before = open_descriptors();
  const auto unsealed = [](int seals) {
    const int fd = memfd_create("tutti-unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(ftruncate(fd, 4096), 0);
    if (seals != 0) {
      EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
    }
    return fd;
  };
  EXPECT_FALSE(Arena::adopt(unsealed(0), 4096).ok());
  EXPECT_FALSE(Arena::adopt(unsealed(F_SEAL_GROW | F_SEAL_SEAL), 4096).ok());
  EXPECT_FALSE(Arena::adopt(unsealed(F_SEAL_SHRINK | F_SEAL_GROW), 4096).ok());
  // Sealed against writing: an arena that cannot be written is none.
  EXPECT_FALSE(
      Arena::adopt(unsealed(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL), 4096).ok());
  EXPECT_FALSE(Arena::adopt(open("/dev/zero", O_RDWR | O_CLOEXEC), 4096).ok());
  EXPECT_FALSE(Arena::adopt(-1, 4096).ok());
  EXPECT_FALSE(Arena::create("tutti", 0).ok());
  EXPECT_FALSE(Arena::create("tutti", ~size_t{0}).ok());

  Result<Arena> good = Arena::create("tutti-size", 8192);
  ASSERT_TRUE(good.ok());
  EXPECT_FALSE(Arena::adopt(dup(good.value().fd()), 4096).ok());
  EXPECT_FALSE(Arena::adopt(dup(good.value().fd()), 16384).ok());
  good = Status::internal_error("closed");
  EXPECT_EQ(open_descriptors(), before);
}

TEST(MemoryHandle, GoesBothWaysAndRefusesNonsense) {
  Result<Arena> arena = Arena::create("tutti-handle", 4096);
  ASSERT_TRUE(arena.ok());
  const Result<std::string> text = describe_memory(arena.value());
  ASSERT_TRUE(text.ok());
  const Result<MemoryHandle> handle = parse_memory(text.value());
  ASSERT_TRUE(handle.ok()) << handle.status().message();
  EXPECT_EQ(handle.value().process, getpid());
  EXPECT_EQ(handle.value().bytes, 4096u);
  EXPECT_EQ(handle.value().address, reinterpret_cast<uint64_t>(arena.value().data()));
  EXPECT_TRUE(names_file(handle.value(), arena.value().fd()));
  EXPECT_FALSE(names_file(handle.value(), 0));
  EXPECT_FALSE(describe_memory(Arena()).ok());
  for (size_t bytes = 0; bytes + 5 < text.value().size(); ++bytes) {
    EXPECT_FALSE(parse_memory(text.value().substr(0, bytes)).ok()) << bytes;
  }
  EXPECT_FALSE(parse_memory(text.value() + " 1").ok());
  EXPECT_FALSE(parse_memory(std::string(100000, ' ')).ok());
}

}  // namespace
}  // namespace tutti::transport
