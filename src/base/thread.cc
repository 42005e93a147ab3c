#include "src/base/thread.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <system_error>
#include <utility>

#include "src/base/caught.h"
#include "src/base/control_groups.h"
#include "src/base/host_name.h"
#include "src/base/words.h"

namespace tutti {
namespace {

/// Keeps signals from this thread, and from those that it starts meanwhile.
class ScopedSignalMask {
 public:
  ScopedSignalMask() {
    sigset_t all;
    sigfillset(&all);
    // Signals that a thread causes are for their handlers: blocked, they would end the program
    // unheard.
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&all, own);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~ScopedSignalMask() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  ScopedSignalMask(const ScopedSignalMask&) = delete;
  ScopedSignalMask& operator=(const ScopedSignalMask&) = delete;

 private:
  sigset_t before_;
};

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "any number of" : std::to_string(limit);
}

/// "12 of 100", of the control group that leaves the least room; empty: none sets a limit.
std::string group_limit() {
  const auto number_in = [](const std::string& path) {
    std::string word;
    std::ifstream(path) >> word;
    return parse_integer<uint64_t>(word);  // none where it is "max"
  };
  std::string text;
  uint64_t least = ~uint64_t{0};
  for (const std::string& folder : group_folders("pids")) {
    const auto most = number_in(folder + "/pids.max");
    const uint64_t taken = number_in(folder + "/pids.current").value_or(0);
    if (!most || *most - std::min(taken, *most) >= least) continue;
    least = *most - std::min(taken, *most);
    text = std::to_string(taken) + " of " + std::to_string(*most);
  }
  return text;
}

}  // namespace

std::string limits_of_threads() {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  (void)getrlimit(RLIMIT_NPROC, &limit);
  const std::string group = group_limit();
  return "process " + std::to_string(getpid()) + " on " + host_name() +
         " runs for a user who may have " + limit_text(limit.rlim_cur) +
         " processes and threads together (ulimit -u, RLIMIT_NPROC)" +
         (group.empty() ? "" : ", in a control group that has " + group + " (pids.max)") +
         ", and a thread takes address space (ulimit -v); raise what is short, or start fewer "
         "ranks on this host";
}

Result<std::thread> start_thread(const std::string& name, std::function<void()> body) {
  constexpr size_t kMaxNameBytes = 15;
  const ScopedSignalMask mask;  // inherited: no window in which a signal is heard
  try {
    // An exception that leaves the body ends the thread, and not the process.
    std::thread thread([body = std::move(body)] { attempt(body); });
    pthread_setname_np(thread.native_handle(), name.substr(0, kMaxNameBytes).c_str());
    return thread;
  } catch (const std::system_error& error) {
    return Status::system_error("cannot start the thread '" + name + "': " + error.what() + "; " +
                                limits_of_threads());
  }
}

}  // namespace tutti
