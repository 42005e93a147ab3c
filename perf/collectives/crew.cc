#include "perf/collectives/crew.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

constexpr std::chrono::milliseconds kPoll{10};
constexpr int kPollsPerSecond = 100;

/// How long to wait for the others when one rank has ended, or more.
class WaitLimit {
 public:
  explicit WaitLimit(const Grace& grace) : grace_(grace) {}

  /// To be asked once in kPoll.
  bool is_over(bool failed) {
    if (failed != failed_) polls_ = 0;
    failed_ = failed;
    return ++polls_ > (failed ? grace_.after_failure : grace_.after_end) * kPollsPerSecond;
  }

 private:
  const Grace grace_;
  int polls_ = 0;
  bool failed_ = false;
};

int run_rank(int rank, int ranks, const BoardOf& board_of, const RankBody& body) {
  std::shared_ptr<Board> board;
  try {
    board = board_of(rank);
    const RankContext context{rank, ranks, *board};
    pin_if_two(context);
    return body(context);
  } catch (const std::exception& error) {
    if (board) board->fail();
    std::fprintf(stderr, "tutti: rank %d: %s\n", rank, error.what());
    const auto* known = dynamic_cast<const PerfError*>(&error);
    return known != nullptr ? known->exit_code : kExitFailed;
  }
}

/// The processes of a crew, seen from their parent.
class Children {
 public:
  explicit Children(const CrewShape& shape)
      : shape_(shape), board_(make_shared_board(shape.ranks())) {}

  void fork_all(const RankBody& body) {
    for (int process = 0; process < shape_.processes; ++process) fork_one(process, body);
  }

  /// Waits for all; after the first not for ever.
  int wait_all() {
    while (running_ == shape_.processes) wait_one(0);
    WaitLimit wait_limit(shape_.grace);
    while (running_ > 0) {
      if (wait_one(WNOHANG)) continue;
      if (wait_limit.is_over(result_ != kExitOk)) break;
      std::this_thread::sleep_for(kPoll);
    }
    kill_rest();
    return result_;
  }

 private:
  void fork_one(int process, const RankBody& body) {
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) {
      kill_rest();
      throw PerfError(std::string("fork: ") + std::strerror(errno));
    }
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);  // the parent died before prctl
      const int result = run_process(
          shape_, process, [&](int) { return board_; }, body);
      _exit(status_of_output(result));
    }
    pids_.push_back(child);
    ++running_;
  }

  bool wait_one(int flags) {
    int status = 0;
    const pid_t pid = waitpid(-1, &status, flags);
    if (pid < 0 && errno == ECHILD) give_up();
    const auto found = std::find(pids_.begin(), pids_.end(), pid);
    if (found == pids_.end()) return false;
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

  void note_end(int process, int status) {
    --running_;
    const auto index = static_cast<size_t>(process);
    const pid_t pid = std::exchange(pids_[index], -1);
    if (WIFSIGNALED(status)) {
      report_signal(process, pid, WTERMSIG(status));
      result_ = std::max(result_, 1);
      board_->fail();
    } else {
      result_ = std::max(result_, WEXITSTATUS(status));
    }
  }

  std::string ranks_of(int process) const {
    const int first = process * shape_.threads;
    if (shape_.threads == 1) return "rank " + std::to_string(first);
    return "ranks " + std::to_string(first) + "-" + std::to_string(first + shape_.threads - 1);
  }

  void report_signal(int process, pid_t pid, int signal) const {
    std::fprintf(stderr, "tutti: %s (pid %d) died of signal %d (%s)\n", ranks_of(process).c_str(),
                 static_cast<int>(pid), signal, strsignal(signal));
  }

  void kill_rest() {
    for (size_t process = 0; process < pids_.size(); ++process) {
      const pid_t pid = pids_[process];
      if (pid <= 0) continue;
      std::fprintf(stderr, "tutti: %s (pid %d) did not end when others had: killed\n",
                   ranks_of(static_cast<int>(process)).c_str(), static_cast<int>(pid));
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
      result_ = std::max(result_, 1);
    }
    pids_.clear();
    running_ = 0;
  }

  const CrewShape shape_;
  const std::shared_ptr<Board> board_;
  std::vector<pid_t> pids_;  // -1 once it has ended
  int running_ = 0;
  int result_ = 0;
};

/// The ranks of a process, as threads.
class Threads {
 public:
  using Run = std::function<int(int rank)>;

  Threads(const CrewShape& shape, int process)
      : shape_(shape),
        first_rank_(process * shape.threads),
        results_(static_cast<size_t>(shape.threads), kRunning) {}

  /// Waits for all; after the first not for ever.
  int run(const Run& run_one) {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < shape_.threads; ++thread) {
      threads.emplace_back([this, &run_one, thread] {
        note_end(static_cast<size_t>(thread), run_one(first_rank_ + thread));
      });
    }
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return running_ < shape_.threads; });
    WaitLimit wait_limit(shape_.grace);
    while (!ended_.wait_for(lock, kPoll, [&] { return running_ == 0; })) {
      if (wait_limit.is_over(worst_ != kExitOk)) give_up();
    }
    return worst_;
  }

 private:
  static constexpr int kRunning = -1;

  void note_end(size_t thread, int result) {
    const std::lock_guard lock(mutex_);
    results_[thread] = result;
    worst_ = std::max(worst_, result);
    --running_;
    ended_.notify_one();
  }

  [[noreturn]] void give_up() const {
    for (size_t thread = 0; thread < results_.size(); ++thread) {
      if (results_[thread] != kRunning) continue;
      std::fprintf(stderr, "tutti: rank %d did not end when others had: the program ends\n",
                   first_rank_ + static_cast<int>(thread));
    }
    std::fflush(stdout);
    _exit(std::max<int>(worst_, kExitFailed));
  }

  const CrewShape shape_;
  const int first_rank_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::vector<int> results_;
  int running_ = shape_.threads;
  int worst_ = kExitOk;
};

}  // namespace

int run_process(const CrewShape& shape, int process, const BoardOf& board_of,
                const RankBody& body) {
  const auto run = [&](int rank) { return run_rank(rank, shape.ranks(), board_of, body); };
  return shape.threads == 1 ? run(process) : Threads(shape, process).run(run);
}

int run_crew(const CrewShape& shape, const RankBody& body) {
  if (shape.processes == 1) {
    const auto board = make_shared_board(shape.ranks());
    return run_process(
        shape, 0, [&](int) { return board; }, body);
  }
  std::fflush(nullptr);  // or every child writes what is in the buffers again
  expect_children();
  Children children(shape);
  children.fork_all(body);
  return children.wait_all();
}

void pin_if_two(const RankContext& context) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (context.ranks != 2 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (CPU_COUNT(&allowed) < 2) return;
  int left = context.rank;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed) || left-- > 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(processor, &own);
    sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

}  // namespace tutti::perf
