// The pages of a rank's own staging memory, as its calls come to use them: a communicator that is
// made and not used takes next to no memory.
//
// Without this a call would pay for each page by a fault of its own, which takes longer, and would
// distort what the clock says about staging (staging_stores.h). Readers map what is there by
// faults, sixteen pages at a time.
//
// Threads: those of HostExecutor. Errors: none; a page that cannot be had now comes, or not, when
// it is touched.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tutti::exec {

/// `memory` begins a page.
inline void populate(std::byte* memory, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  madvise(memory, bytes, MADV_POPULATE_WRITE);
#else
  (void)memory, (void)bytes;
#endif
}

/// How much of a ring there is. Frames rise until the end of the ring is reached for the first
/// time; what they left out until then, at the end of a region, comes when it is touched.
class PopulatedRing {
 public:
  /// The frame [begin, end) of `ring`, which has `bytes`, is about to be used.
  void reach(std::byte* ring, uint64_t bytes, uint64_t begin, uint64_t end) {
    if (end <= end_) [[likely]]
      return;
    grow(ring, bytes, begin, end);
  }

 private:
  [[gnu::noinline, gnu::cold]] void grow(std::byte* ring, uint64_t bytes, uint64_t begin,
                                         uint64_t end) {
    constexpr uint64_t kStep = 64 << 10;  // small frames are not worth a system call each
    constexpr uint64_t kPage = 4096;
    begin = std::max(end_, begin) / kPage * kPage;
    end_ = std::min(bytes, (end + kStep - 1) / kStep * kStep);
    populate(ring + begin, end_ - begin);
  }

  uint64_t end_ = 0;
};

}  // namespace tutti::exec
