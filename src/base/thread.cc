#include "src/base/thread.h"

#include <pthread.h>

#include <csignal>
#include <system_error>

namespace tutti {

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  constexpr size_t kMaxNameBytes = 15;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited: no window in which a signal is heard
  std::thread thread;
  Status failure;
  try {
    thread = std::thread(std::move(body));
  } catch (const std::system_error& error) {
    failure = Status::system_error("cannot start the thread '" + name + "': " + error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failure.ok()) return failure;
  pthread_setname_np(thread.native_handle(), name.substr(0, kMaxNameBytes).c_str());
  return thread;
}

}  // namespace tutti
