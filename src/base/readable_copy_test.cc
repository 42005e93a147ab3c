#include "src/base/readable_copy.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

namespace tutti {
namespace {

TEST(ReadableCopy, CopiesWhatIsThereAndRefusesWhatIsNot) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* bytes = static_cast<std::byte*>(pages);
  bytes[page - 1] = std::byte{7};
  ASSERT_EQ(mprotect(bytes + page, page, PROT_NONE), 0);
  std::vector<std::byte> target(2 * page);
  EXPECT_TRUE(copy_if_readable(target.data(), bytes, page));
  EXPECT_EQ(target[page - 1], std::byte{7});
  EXPECT_FALSE(copy_if_readable(target.data(), bytes, page + 1)) << "its end is no memory";
  EXPECT_FALSE(copy_if_readable(target.data(), bytes + page, 1));
  EXPECT_TRUE(copy_if_readable(target.data(), nullptr, 0));
  munmap(pages, 2 * page);
}

}  // namespace
}  // namespace tutti
