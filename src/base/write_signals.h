// Writes that end with an error, where the kernel would also send the thread a signal that ends
// programs: SIGPIPE where nobody reads any more, SIGXFSZ where a file would pass the limit of
// ulimit -f.
//
// Threads: any; what the program's other threads write is theirs. Errors: errno.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string_view>

namespace tutti {

/// While it exists this thread gets neither signal for what it does.
class NoWriteSignals {
 public:
  NoWriteSignals();
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;
  ~NoWriteSignals();

 private:
  sigset_t mask_before_;
  sigset_t taken_;  // of the two, those that were not pending before
};

/// write(2) without those signals and without EINTR.
ssize_t write_quietly(int fd, std::string_view text);

}  // namespace tutti
