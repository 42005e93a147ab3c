// A process that has no descriptors left, for a while.
//
// Owns: the descriptors that take the room, and the limit. Threads: one at a time in a process.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace tutti::testing_support {

/// Leaves this process `room` descriptors to open, as long as it lives. Those that other threads
/// close meanwhile are room, too, but where there is to be none: then only the lowest three would
/// be.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t room) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = room == 0 ? STDERR_FILENO + 1 : 256;
    setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = 0; (fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) >= 0;) kept_.push_back(fd);
    for (size_t i = 0; i < room && !kept_.empty(); ++i) {
      close(kept_.back());
      kept_.pop_back();
    }
  }
  ~FewDescriptors() {
    for (const int fd : kept_) close(fd);
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<int> kept_;
};

// The undefined-behaviour sanitizer opens a pipe to see whether an object may be looked at, and
// takes it for none where that fails.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitizerNeedsDescriptors = true;
#else
inline constexpr bool kSanitizerNeedsDescriptors = false;
#endif

}  // namespace tutti::testing_support
