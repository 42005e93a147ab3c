#include "perf/collectives/crew.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "perf/collectives/command.h"
#include "perf/collectives/error.h"
#include "perf/collectives/shared_board.h"

namespace tutti::perf {
namespace {

constexpr int kGraceSeconds = 10;
constexpr useconds_t kPollMicroseconds = 10'000;

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
      : shape_(shape), board_(std::make_shared<SharedBoard>(shape.ranks())) {}

  void fork_all(const RankBody& body) {
    for (int process = 0; process < shape_.processes; ++process) fork_one(process, body);
  }

  /// Waits for all; after the first failure not for long.
  int wait_all() {
    while (running_ > 0 && !board_->failed()) wait_one(0);
    const int polls = kGraceSeconds * 1'000'000 / static_cast<int>(kPollMicroseconds);
    for (int poll = 0; running_ > 0 && poll < polls; ++poll) {
      if (!wait_one(WNOHANG)) usleep(kPollMicroseconds);
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

  void report_signal(int process, pid_t pid, int signal) const {
    const int first = process * shape_.threads;
    std::string who = "rank " + std::to_string(first);
    if (shape_.threads > 1)
      who = "ranks " + std::to_string(first) + "-" + std::to_string(first + shape_.threads - 1);
    std::fprintf(stderr, "tutti: %s (pid %d) died of signal %d (%s)\n", who.c_str(),
                 static_cast<int>(pid), signal, strsignal(signal));
  }

  void kill_rest() {
    for (const pid_t pid : pids_) {
      if (pid <= 0) continue;
      std::fprintf(stderr, "tutti: ending pid %d, which does not end by itself\n",
                   static_cast<int>(pid));
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

}  // namespace

int run_process(const CrewShape& shape, int process, const BoardOf& board_of,
                const RankBody& body) {
  std::vector<int> results(static_cast<size_t>(shape.threads));
  const auto run = [&](int thread) {
    const int rank = process * shape.threads + thread;
    results[static_cast<size_t>(thread)] = run_rank(rank, shape.ranks(), board_of, body);
  };
  if (shape.threads == 1) {
    run(0);
  } else {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < shape.threads; ++thread) threads.emplace_back(run, thread);
  }
  return *std::max_element(results.begin(), results.end());
}

int run_crew(const CrewShape& shape, const RankBody& body) {
  if (shape.processes == 1) {
    const auto board = std::make_shared<SharedBoard>(shape.ranks());
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
