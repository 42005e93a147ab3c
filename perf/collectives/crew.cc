#include "perf/collectives/crew.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "perf/collectives/error.h"

namespace tutti::perf {
namespace {

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
    while (!ended_.wait_for(lock, kChildrenPoll, [&] { return running_ == 0; })) {
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
  const std::shared_ptr<Board> board = make_shared_board(shape.ranks());
  Children children;
  children.count = shape.processes;
  children.run = [&](int process) {
    return run_process(
        shape, process, [&](int) { return board; }, body);
  };
  children.name = [&](int process) { return ranks_text(process, shape.threads); };
  children.on_death = [&] { board->fail(); };
  children.grace = shape.grace;
  return run_children(children);
}

std::string ranks_text(int process, int threads) {
  const int first = process * threads;
  if (threads == 1) return "rank " + std::to_string(first);
  return "ranks " + std::to_string(first) + "-" + std::to_string(first + threads - 1);
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
