#include "tests/support/team.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <thread>

#include "tests/support/metronome.h"

namespace tutti::testing_support {
namespace {

// After the first failure the other ranks usually get an error by themselves, which tells more.
constexpr uint64_t kGraceNs = 5'000'000'000;
constexpr uint64_t kPollNs = 1'000'000;

class SharedBoard {
 public:
  SharedBoard() {
    void* memory =
        mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    board_ = new (memory) Board();
  }
  ~SharedBoard() { munmap(board_, sizeof(Board)); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  Board& get() { return *board_; }

 private:
  Board* board_;
};

void run_rank(Board& board, const Body& body, int rank, int ranks) {
  Member member(board, rank, ranks);
  body(member);
  RankState running = RankState::kRunning;
  board.slots[rank].state.compare_exchange_strong(running, RankState::kDone);
}

[[noreturn]] void run_process(const TeamShape& shape, int process, Board& board, const Body& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto index = static_cast<size_t>(process);
  if (index < shape.environment.size()) {
    for (const auto& [name, value] : shape.environment[index]) {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    if (shape.process_of[static_cast<size_t>(rank)] != process) continue;
    board.slots[rank].process.store(getpid());
    threads.emplace_back([&, rank] { run_rank(board, body, rank, shape.ranks()); });
  }
  for (std::thread& thread : threads) thread.join();
  std::fflush(nullptr);
  _exit(0);
}

struct Child {
  pid_t pid = -1;
  bool running = true;
  int status = 0;
};

// True while one is running.
bool reap(std::vector<Child>& children) {
  bool any = false;
  for (Child& child : children) {
    if (!child.running) continue;
    const pid_t got = waitpid(child.pid, &child.status, WNOHANG);
    child.running = got == 0;
    any = any || child.running;
  }
  return any;
}

void kill_all(std::vector<Child>& children) {
  for (Child& child : children) {
    if (!child.running) continue;
    kill(child.pid, SIGKILL);
    waitpid(child.pid, &child.status, 0);
    child.running = false;
  }
}

/// Member::die().
bool was_to_die(const TeamShape& shape, const Board& board, int process) {
  for (int rank = 0; rank < shape.ranks(); ++rank) {
    const bool is_there = shape.process_of[static_cast<size_t>(rank)] == process;
    if (is_there && board.slots[rank].state.load() != RankState::kDone) return false;
  }
  return true;
}

bool any_died(const TeamShape& shape, const Board& board, const std::vector<Child>& children) {
  for (size_t process = 0; process < children.size(); ++process) {
    const Child& child = children[process];
    const bool died = !child.running && child.status != 0;
    if (died && !was_to_die(shape, board, static_cast<int>(process))) return true;
  }
  return false;
}

bool any_failed(const Board& board, int ranks) {
  return std::any_of(board.slots, board.slots + ranks,
                     [](const RankSlot& slot) { return slot.state.load() == RankState::kFailed; });
}

int first_failed(const Board& board, int ranks) {
  int first = -1;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankSlot& slot = board.slots[rank];
    if (slot.state.load() != RankState::kFailed) continue;
    if (first < 0 || slot.failed_at_ns.load() < board.slots[first].failed_at_ns.load()) {
      first = rank;
    }
  }
  return first;
}

std::string describe_rank(const Board& board, int rank, const StepName& name) {
  const RankSlot& slot = board.slots[rank];
  std::string text = "  rank " + std::to_string(rank) + ": ";
  switch (slot.state.load()) {
    case RankState::kDone:
      return text + "done\n";
    case RankState::kFailed:
      text += std::string("failed: ") + slot.message + "\n    in ";
      break;
    case RankState::kRunning:
      text += "still in ";
      break;
  }
  return text + name(slot.step.load()) + "\n";
}

TeamResult judge(const Board& board, int ranks, const StepName& name) {
  TeamResult result;
  const bool all_done = std::all_of(board.slots, board.slots + ranks, [](const RankSlot& slot) {
    return slot.state.load() == RankState::kDone;
  });
  if (all_done) return result;
  result.ok = false;
  result.first_failed = first_failed(board, ranks);
  if (result.first_failed < 0) {
    for (int rank = ranks - 1; rank >= 0; --rank) {
      if (board.slots[rank].state.load() != RankState::kDone) result.first_failed = rank;
    }
  }
  result.first_step = board.slots[result.first_failed].step.load();
  for (int rank = 0; rank < ranks; ++rank) result.report += describe_rank(board, rank, name);
  return result;
}

TeamResult run_once(const TeamShape& shape, const Body& body, const StepName& name,
                    uint64_t limit_ns, Pulse& pulse) {
  SharedBoard shared;
  Board& board = shared.get();
  std::fflush(nullptr);
  std::vector<Child> children;
  for (int process = 0; process < shape.process_count(); ++process) {
    const pid_t pid = fork();
    if (pid == 0) run_process(shape, process, board, body);
    children.push_back({pid});
  }
  uint64_t end_ns = now_ns() + limit_ns;
  bool failing = false;
  while (reap(children) && now_ns() < end_ns) {
    const bool died = any_died(shape, board, children);
    if (!failing && (died || any_failed(board, shape.ranks()))) {
      failing = true;
      end_ns = std::min(end_ns, now_ns() + kGraceNs);
    }
    sleep_ns(kPollNs);
    pulse.beat();
  }
  const bool hung = reap(children) && !failing;
  kill_all(children);
  TeamResult result = judge(board, shape.ranks(), name);
  result.hung = hung;
  for (size_t process = 0; process < children.size(); ++process) {
    const int status = children[process].status;
    if (!WIFSIGNALED(status) || (hung && WTERMSIG(status) == SIGKILL)) continue;
    result.ok = false;
    result.report += "  process " + std::to_string(process) + " ended by signal " +
                     std::to_string(WTERMSIG(status)) + "\n";
  }
  if (hung) result.report = "  killed: it did not end in time\n" + result.report;
  return result;
}

}  // namespace

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_ns(uint64_t duration_ns) {
  timespec rest{static_cast<time_t>(duration_ns / 1'000'000'000u),
                static_cast<long>(duration_ns % 1'000'000'000u)};
  while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
  }
}

void Member::fail(const std::string& message) {
  RankSlot& slot = board_.slots[rank_];
  if (slot.state.load() != RankState::kRunning) return;
  std::snprintf(slot.message, sizeof slot.message, "%s", message.c_str());
  slot.failed_at_ns.store(now_ns());
  slot.state.store(RankState::kFailed);
}

bool Member::meet() {
  ++meetings_;
  board_.arrived.fetch_add(1);
  while (board_.arrived.load() < meetings_ * static_cast<uint32_t>(ranks_)) {
    if (any_failed(board_, ranks_)) return false;
    sleep_ns(kPollNs / 10);
  }
  return true;
}

void Member::die() {
  board_.slots[rank_].state.store(RankState::kDone);
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

bool Member::take_id(tuttiUniqueId& id) {
  if (rank_ == 0) {
    if (const tuttiResult_t made = tuttiGetUniqueId(&board_.id); made != tuttiSuccess) {
      fail(std::string("tuttiGetUniqueId: ") + tuttiGetLastError(nullptr));
      board_.id_failed.store(1);
      return false;
    }
    board_.has_id.store(1);
  }
  while (board_.has_id.load() == 0) {
    if (board_.id_failed.load() != 0) {
      fail("rank 0 made no id");
      return false;
    }
    sleep_ns(kPollNs / 10);
  }
  id = board_.id;
  return true;
}

const char* name_of(Network network) {
  constexpr const char* kNames[] = {"default", "tcp", "mixed"};
  return kNames[static_cast<int>(network)];
}

Environment environment_of(Network network, int process, int processes) {
  if (network == Network::kTcp) return {{"TUTTI_TRANSPORTS", "tcp"}};
  if (network == Network::kDefault) return {};
  return {{"TUTTI_HOST_ID", process * 2 < processes ? "first-half" : "second-half"}};
}

TeamShape TeamShape::threads(int ranks) {
  return {std::vector<int>(static_cast<size_t>(ranks), 0), {}};
}

TeamShape TeamShape::processes(int ranks) {
  TeamShape shape;
  for (int rank = 0; rank < ranks; ++rank) shape.process_of.push_back(rank);
  return shape;
}

TeamShape TeamShape::of(int ranks, bool threads, Network network) {
  TeamShape shape = threads ? TeamShape::threads(ranks) : TeamShape::processes(ranks);
  shape.use(network);
  return shape;
}

void TeamShape::use(Network network) {
  const int count = process_count();
  environment.resize(static_cast<size_t>(count));
  for (int process = 0; process < count; ++process) {
    environment[static_cast<size_t>(process)].merge(environment_of(network, process, count));
  }
}

void TeamShape::set(const std::string& name, const std::string& value) {
  environment.resize(static_cast<size_t>(process_count()));
  for (Environment& of_process : environment) of_process[name] = value;
}

int TeamShape::process_count() const {
  return *std::max_element(process_of.begin(), process_of.end()) + 1;
}

TeamResult run_team(const TeamShape& shape, const Body& body, const StepName& name,
                    uint64_t limit_ns) {
  constexpr int kMostRuns = 3;
  for (int run = 1;; ++run) {
    Pulse pulse;
    TeamResult result = run_once(shape, body, name, limit_ns, pulse);
    if (result.ok || pulse.stood_still_ns() == 0 || run == kMostRuns) return result;
    std::printf("the machine stood still for %d ms: once more\n%s",
                static_cast<int>(pulse.stood_still_ns() / 1'000'000), result.report.c_str());
    std::fflush(stdout);
  }
}

}  // namespace tutti::testing_support
