#include "perf/collectives/children.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr std::chrono::milliseconds kSeldom{200};  // what runs may be measured

class Family {
 public:
  explicit Family(const Children& children) : children_(children) {}

  void fork_all() {
    for (int number = 0; number < children_.count; ++number) fork_one(number);
  }

  /// Waits for all; after the first not for ever.
  int wait_all() {
    const auto& is_called_off = children_.is_called_off;
    while (running_ == children_.count) {
      if (wait_one(is_called_off ? WNOHANG : 0)) continue;
      if (is_called_off && is_called_off(kSeldom)) kill_rest("is no longer wanted");
    }
    WaitLimit wait_limit(children_.grace);
    while (running_ > 0) {
      if (wait_one(WNOHANG)) continue;
      if (wait_limit.is_over(result_ != kExitOk)) break;
      if (!is_called_off) {
        std::this_thread::sleep_for(kChildrenPoll);
      } else if (is_called_off(kChildrenPoll)) {
        kill_rest("is no longer wanted");
      }
    }
    kill_rest("did not end when others had");
    return result_;
  }

 private:
  void fork_one(int number) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      const int error = errno;
      kill_rest("is no longer wanted");
      throw PerfError(std::string("fork: ") + std::strerror(error));
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);  // the parent died before prctl
      _exit(status_of_output(children_.run(number)));
    }
    pids_.push_back(child);
    ++running_;
  }

  bool wait_one(int flags) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, flags);
    if (pid < 0 && errno == ECHILD) give_up();
    const auto found = std::find(pids_.begin(), pids_.end(), pid);
    if (found == pids_.end() || pid <= 0) return false;
    note_end(static_cast<int>(found - pids_.begin()), status);
    return true;
  }

  /// Somebody else has waited for them: nobody can say how they ended.
  void give_up() {
    std::fprintf(stderr, "tutti: %d processes have ended, and not said how\n", running_);
    result_ = std::max<int>(result_, kExitFailed);
    pids_.clear();
    running_ = 0;
  }

  void note_end(int number, int status) {
    --running_;
    const pid_t pid = std::exchange(pids_[static_cast<size_t>(number)], -1);
    if (WIFSIGNALED(status)) {
      std::fprintf(stderr, "tutti: %s (pid %d) died of signal %d (%s)\n",
                   children_.name(number).c_str(), static_cast<int>(pid), WTERMSIG(status),
                   strsignal(WTERMSIG(status)));
      result_ = std::max(result_, 1);
      children_.on_death();
    } else {
      result_ = std::max(result_, WEXITSTATUS(status));
    }
  }

  void kill_rest(const char* why) {
    for (size_t number = 0; number < pids_.size(); ++number) {
      const pid_t pid = pids_[number];
      if (pid <= 0) continue;
      std::fprintf(stderr, "tutti: %s (pid %d) %s: killed\n",
                   children_.name(static_cast<int>(number)).c_str(), static_cast<int>(pid), why);
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      result_ = std::max(result_, 1);
    }
    pids_.clear();
    running_ = 0;
  }

  const Children& children_;
  std::vector<pid_t> pids_;  // -1 once it has ended
  int running_ = 0;
  int result_ = 0;
};

}  // namespace

int run_children(const Children& children) {
  std::fflush(nullptr);  // or every child writes what is in the buffers again
  expect_children();
  Family family(children);
  family.fork_all();
  return family.wait_all();
}

}  // namespace tutti::perf
