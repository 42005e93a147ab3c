#include "src/base/thread.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "src/base/caught.h"

namespace tutti {
namespace {

Status refusal(const std::string& name, const std::exception& error) {
  return caught_status([&]() -> Status {
    if (dynamic_cast<const std::system_error*>(&error) == nullptr) return status_of(error);
    return Status::system_error("cannot start the thread '" + name + "': " + error.what());
  });
}

}  // namespace

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  constexpr size_t kMaxNameBytes = 15;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  // What a thread does itself is for its handlers: blocked, it would end the program unheard.
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, own);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited: no window in which a signal is heard
  std::thread thread;
  Status failure;
  try {
    // What the body lets through ends the thread, and not the process.
    thread = std::thread([body = std::move(body)] { attempt(body); });
  } catch (const std::exception& error) {
    failure = refusal(name, error);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!failure.ok()) return failure;
  pthread_setname_np(thread.native_handle(), name.substr(0, kMaxNameBytes).c_str());
  return thread;
}

}  // namespace tutti
