#include "src/base/write_signals.h"

#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace tutti {

NoWriteSignals::NoWriteSignals() {
  sigset_t pending;
  sigpending(&pending);
  sigemptyset(&taken_);
  for (const int signal : {SIGPIPE, SIGXFSZ}) {
    if (sigismember(&pending, signal) == 0) sigaddset(&taken_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken_, &mask_before_);
}

NoWriteSignals::~NoWriteSignals() {
  const int error = errno;
  const timespec now{0, 0};
  while (sigtimedwait(&taken_, nullptr, &now) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  errno = error;
}

ssize_t write_quietly(int fd, std::string_view text) {
  const NoWriteSignals no_signals;
  ssize_t count = 0;
  do {
    count = ::write(fd, text.data(), text.size());
  } while (count < 0 && errno == EINTR);
  return count;
}

}  // namespace tutti
