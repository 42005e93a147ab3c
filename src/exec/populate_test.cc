// Which pages of a ring there are, when.
#include "src/exec/populate.h"

#include <gtest/gtest.h>

#include <array>

namespace tutti::exec {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kPages = 64;
constexpr uint64_t kBytes = kPages * kPage;

class Ring {
 public:
  Ring()
      : memory_(static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Ring() { munmap(memory_, kBytes); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::byte* memory() const { return memory_; }
  uint64_t pages() const {
    std::array<unsigned char, kPages> there{};
    EXPECT_EQ(mincore(memory_, kBytes, there.data()), 0);
    uint64_t count = 0;
    for (const unsigned char page : there) count += page & 1;
    return count;
  }

 private:
  std::byte* const memory_;
};

bool can_populate(const Ring& ring) {
#ifdef MADV_POPULATE_WRITE
  return madvise(ring.memory(), kPage, MADV_POPULATE_WRITE) == 0;
#else
  (void)ring;
  return false;
#endif
}

TEST(PopulatedRing, HasWhatFramesHaveReachedAndTheRestOfTheStep) {
  const Ring ring;
  if (!can_populate(ring)) GTEST_SKIP() << "this kernel maps no pages before they are touched";
  PopulatedRing populated;
  populated.reach(ring.memory(), kBytes, 0, 100);
  EXPECT_EQ(ring.pages(), 16u);
  populated.reach(ring.memory(), kBytes, 100, 16 * kPage);
  EXPECT_EQ(ring.pages(), 16u);
  populated.reach(ring.memory(), kBytes, 16 * kPage, 16 * kPage + 1);
  EXPECT_EQ(ring.pages(), 32u);
  // A frame in the next region leaves the end of this one alone.
  populated.reach(ring.memory(), kBytes, 60 * kPage, kBytes);
  EXPECT_EQ(ring.pages(), 36u);
  populated.reach(ring.memory(), kBytes, 0, 100);
  EXPECT_EQ(ring.pages(), 36u);
}

}  // namespace
}  // namespace tutti::exec
