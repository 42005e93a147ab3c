#include "waiting.h"

#include <nanobind/nanobind.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

namespace tutti::python {
namespace {

namespace nb = nanobind;

/// A call that returns by itself soon is left alone.
constexpr std::chrono::milliseconds kPatience{200};

// tidy: allow mutable (a signal handler has no other way to these two)
volatile sig_atomic_t wake_up = -1;
// tidy: allow mutable (as above: Python's handler, which runs behind this one)
struct sigaction behind = {};

void on_interrupt(int number, siginfo_t* info, void* context) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_up, &one, sizeof(one));
  if ((behind.sa_flags & SA_SIGINFO) != 0) {
    behind.sa_sigaction(number, info, context);
  } else {
    behind.sa_handler(number);
  }
}

/// The call that the main thread is in, and the thread that gives it up.
class Watcher {
 public:
  Watcher() : maker(getpid()), events_(eventfd(0, EFD_CLOEXEC)) {
    wake_up = events_;
    std::thread([this] { watch(); }).detach();
  }

  void begin(const std::function<void()>& give_up) {
    std::lock_guard lock(mutex_);
    give_up_ = &give_up;
    ++serial_;
    gave_up_ = false;
  }

  /// Whether the call was given up.
  bool end() {
    std::lock_guard lock(mutex_);
    give_up_ = nullptr;
    return gave_up_;
  }

  /// Takes Python's place as handler of SIGINT, where Python has one.
  void listen() {
    struct sigaction now = {};
    if (sigaction(SIGINT, nullptr, &now) != 0) return;
    const bool plain = (now.sa_flags & SA_SIGINFO) == 0;
    if (plain && (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN)) return;
    if (!plain && now.sa_sigaction == on_interrupt) return;
    behind = now;
    now.sa_sigaction = on_interrupt;
    now.sa_flags |= SA_SIGINFO;
    sigaction(SIGINT, &now, nullptr);
  }

  const pid_t maker;  // a child of fork() has no threads of its parent

 private:
  static bool raises_interrupt() {
    const nb::module_ signals = nb::module_::import_("signal");
    return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
  }

  uint64_t call_under_way() {
    std::lock_guard lock(mutex_);
    return give_up_ != nullptr ? serial_ : 0;
  }

  void watch() {
    uint64_t count = 0;
    while (read(events_, &count, sizeof(count)) == sizeof(count)) {
      const uint64_t serial = call_under_way();
      if (serial == 0) continue;
      std::this_thread::sleep_for(kPatience);
      if (call_under_way() != serial) continue;
      nb::gil_scoped_acquire locked;
      if (!raises_interrupt()) continue;
      std::lock_guard lock(mutex_);
      if (give_up_ == nullptr || serial_ != serial) continue;
      gave_up_ = true;
      (*give_up_)();
    }
  }

  int events_;
  std::mutex mutex_;
  const std::function<void()>* give_up_ = nullptr;
  uint64_t serial_ = 0;
  bool gave_up_ = false;
};

/// It lives as long as the process, since its thread may run when the interpreter ends.
Watcher& watcher() {
  static Watcher* made = nullptr;  // tidy: allow mutable (a thread must not outlive its object)
  if (made == nullptr || made->maker != getpid()) made = new Watcher;
  return *made;
}

void run_watched(Watcher& watcher, const std::function<void()>& work,
                 const std::function<void()>& give_up) {
  watcher.listen();
  bool gave_up = false;
  std::exception_ptr failure;
  {
    nb::gil_scoped_release released;
    watcher.begin(give_up);
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    gave_up = watcher.end();
  }
  if (gave_up && PyErr_CheckSignals() != 0) throw nb::python_error();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

bool hears_signals() {
  static const unsigned long main_thread = nb::cast<unsigned long>(
      nb::module_::import_("threading").attr("main_thread")().attr("ident"));
  return PyThread_get_thread_ident() == main_thread;
}

void run_waiting(const std::function<void()>& work, const std::function<void()>& give_up) {
  if (hears_signals()) {
    run_watched(watcher(), work, give_up);
    return;
  }
  nb::gil_scoped_release released;
  work();
}

}  // namespace tutti::python
