#include "src/base/alias_mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "src/base/memory_file.h"

namespace tutti {
namespace {

constexpr size_t kBytes = 8192;

TEST(AliasMapping, HasTheSameBytesAndOutlivesTheFirstMapping) {
  const Result<Fd> file = make_memory_file("alias", kBytes);
  ASSERT_TRUE(file.ok());
  void* const first =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.value().get(), 0);
  ASSERT_NE(first, MAP_FAILED);
  const Result<AliasMapping> alias = AliasMapping::create(first, kBytes);
  ASSERT_TRUE(alias.ok()) << alias.status().message();
  auto* const words = static_cast<int*>(first);
  auto* const same = static_cast<int*>(alias.value().data());
  ASSERT_NE(words, same);
  words[0] = 7;
  same[1] = 8;
  EXPECT_EQ(same[0], 7);
  EXPECT_EQ(words[1], 8);
  munmap(first, kBytes);
  EXPECT_EQ(same[0], 7);
}

TEST(AliasMapping, RefusesPrivateMemory) {
  void* const mine =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mine, MAP_FAILED);
  const Result<AliasMapping> alias = AliasMapping::create(mine, kBytes);
  EXPECT_EQ(alias.status().code(), Code::kSystemError);
  munmap(mine, kBytes);
}

}  // namespace
}  // namespace tutti
