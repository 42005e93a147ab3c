#include "src/base/thread.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "src/base/caught.h"

namespace tutti {
namespace {

/// Keeps signals from this thread, and from those that it starts meanwhile.
class Deaf {
 public:
  Deaf() {
    sigset_t all;
    sigfillset(&all);
    // Signals that a thread causes are for their handlers: blocked, they would end the program
    // unheard.
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~Deaf() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Deaf(const Deaf&) = delete;
  Deaf& operator=(const Deaf&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  constexpr size_t kMaxNameBytes = 15;
  const Deaf deaf;  // inherited: no window in which a signal is heard
  try {
    // An exception that leaves the body ends the thread, and not the process.
    std::thread thread([body = std::move(body)] { attempt(body); });
    pthread_setname_np(thread.native_handle(), name.substr(0, kMaxNameBytes).c_str());
    return thread;
  } catch (const std::system_error& error) {
    return Status::system_error("cannot start the thread '" + name + "': " + error.what());
  }
}

}  // namespace tutti
