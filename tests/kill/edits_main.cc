// edits: processes that split, grow, and go on without ranks that were killed with SIGKILL.
//
//   --network default|tcp|mixed  --victim R
//
// Six ranks in a loop of all-reduces; the victim kills itself in the middle of it. The others get
// an error, shrink without it and go on; then the highest of them dies too, and the rest shrinks
// what was shrunk. Then two new processes join by grow, and all split by parity.
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/kill/leaks.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::kill_test {
namespace {

using testing_support::Board;
using testing_support::Member;
using testing_support::now_ns;
using testing_support::RankState;
using testing_support::sleep_ns;

constexpr int kRanks = 6;
constexpr int kNewcomers = 2;
constexpr int kDyingTurn = 30;
constexpr uint64_t kHangNs = 150'000'000'000;

struct Options {
  int victim = 0;
  testing_support::Network network = testing_support::Network::kDefault;
};

void set_environment(const Options& options, int rank) {
  // Newcomers are numbered behind all others, and half of the ranks share a host.
  for (const auto& [name, value] : testing_support::environment_of(options.network, rank % 2, 2)) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  setenv("TUTTI_INIT_TIMEOUT", "60", 1);
}

struct Grown {  // behind the board's id: by which the newcomers join
  tuttiUniqueId id;
  std::atomic<uint32_t> known;
};

class Rank {
 public:
  Rank(Member member, const Options& options, Grown& grown)
      : member_(member), options_(options), grown_(grown) {}

  void run() {
    if (member_.rank() >= kRanks) {
      join();
    } else {
      live();
    }
  }

 private:
  bool ok(tuttiResult_t result, tuttiComm_t comm, const char* what) {
    if (result == tuttiSuccess) return true;
    member_.fail(std::string(what) + ": " + tuttiGetLastError(comm));
    return false;
  }

  bool expect_sum(tuttiComm_t comm, int value, int wanted) {
    int sum = 0;
    if (!ok(tuttiAllReduce(&value, &sum, 1, tuttiInt32, tuttiSum, comm, tuttiBlocking()), comm,
            "all_reduce")) {
      return false;
    }
    if (sum != wanted) {
      member_.fail("the sum is " + std::to_string(sum) + ", not " + std::to_string(wanted));
    }
    return sum == wanted;
  }

  /// Runs until somebody dies; the one who dies does not return.
  bool loop(tuttiComm_t comm, bool dies) {
    std::vector<float> send(100'000, 1.0f), recv(100'000);
    for (int turn = 0;; ++turn) {
      if (dies && turn == kDyingTurn) raise(SIGKILL);
      const size_t count = turn % 2 == 0 ? 4 : send.size();
      const tuttiResult_t result = tuttiAllReduce(send.data(), recv.data(), count, tuttiFloat32,
                                                  tuttiSum, comm, tuttiBlocking());
      if (result == tuttiRemoteError) return true;
      if (!ok(result, comm, "loop")) return false;
    }
  }

  void live() {
    const int rank = member_.rank();
    const int second = options_.victim == kRanks - 1 ? kRanks - 2 : kRanks - 1;
    tuttiUniqueId id;
    if (!member_.take_id(id)) return;
    tuttiComm_t comms[5] = {};
    if (!ok(tuttiCommInitRank(&comms[0], kRanks, id, rank), nullptr, "init")) return;
    if (!loop(comms[0], rank == options_.victim)) return;
    member_.at(1);
    if (!ok(tuttiCommShrink(comms[0], &options_.victim, 1, &comms[1], nullptr, 0), nullptr,
            "shrink")) {
      return;
    }
    const int total = kRanks * (kRanks - 1) / 2 - options_.victim;
    if (!expect_sum(comms[1], rank, total)) return;
    member_.at(2);
    if (!loop(comms[1], rank == second)) return;
    const int last = kRanks - 2;  // its number in what was shrunk
    if (!ok(tuttiCommShrink(comms[1], &last, 1, &comms[2], nullptr, TUTTI_SHRINK_ABORT), nullptr,
            "shrink again") ||
        !expect_sum(comms[2], rank, total - second)) {
      return;
    }
    member_.at(3);
    if (!grow(comms)) return;
    if (!split(comms[3], &comms[4])) return;
    for (tuttiComm_t comm : comms) {
      if (!ok(tuttiCommDestroy(comm), comm, "destroy")) return;
    }
    end();
  }

  bool grow(tuttiComm_t* comms) {
    int rank = 0;
    if (!ok(tuttiCommUserRank(comms[2], &rank), comms[2], "rank")) return false;
    if (rank == 1) {
      if (!ok(tuttiCommGetUniqueId(comms[2], &grown_.id), comms[2], "id")) return false;
      grown_.known.store(1);
    }
    return ok(
        tuttiCommGrow(comms[2], kRanks, rank == 1 ? &grown_.id : nullptr, -1, &comms[3], nullptr),
        nullptr, "grow");
  }

  bool split(tuttiComm_t grown, tuttiComm_t* part) {
    int rank = 0;
    if (!expect_sum(grown, 1, kRanks)) return false;
    if (!ok(tuttiCommUserRank(grown, &rank), grown, "rank")) return false;
    if (!ok(tuttiCommSplit(grown, rank % 2, 0, part, nullptr), nullptr, "split")) return false;
    return expect_sum(*part, rank, rank % 2 == 0 ? 6 : 9);
  }

  void join() {
    while (grown_.known.load() == 0) sleep_ns(1'000'000);
    tuttiComm_t comm = nullptr, part = nullptr;
    const int rank = member_.rank() - kNewcomers;
    if (!ok(tuttiCommGrow(nullptr, kRanks, &grown_.id, rank, &comm, nullptr), nullptr, "join")) {
      return;
    }
    if (!split(comm, &part)) return;
    if (!ok(tuttiCommDestroy(comm), comm, "destroy")) return;
    if (!ok(tuttiCommDestroy(part), part, "destroy")) return;
    end();
  }

  void end() {
    for (const std::string& line : memory_of_this_process()) member_.fail("left: " + line);
    RankState running = RankState::kRunning;
    member_.board().slots[member_.rank()].state.compare_exchange_strong(running, RankState::kDone);
  }

  Member member_;
  const Options& options_;
  Grown& grown_;
};

template <class T>
T* share() {
  void* memory =
      mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return new (memory) T();
}

// True once every process has ended.
bool reap(std::vector<pid_t>& pids, uint64_t end_ns) {
  for (pid_t& pid : pids) {
    while (pid > 0) {
      if (waitpid(pid, nullptr, WNOHANG) == pid) {
        pid = -1;
      } else if (now_ns() > end_ns) {
        return false;
      } else {
        sleep_ns(1'000'000);
      }
    }
  }
  return true;
}

int run(const Options& options) {
  Board& board = *share<Board>();
  Grown& grown = *share<Grown>();
  std::vector<pid_t> pids;
  for (int rank = 0; rank < kRanks + kNewcomers; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      set_environment(options, rank);
      Rank(Member(board, rank, kRanks + kNewcomers), options, grown).run();
      _exit(0);
    }
    pids.push_back(pid);
  }
  const bool ended = reap(pids, now_ns() + kHangNs);
  for (pid_t pid : pids) {
    if (pid <= 0) continue;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  const int second = options.victim == kRanks - 1 ? kRanks - 2 : kRanks - 1;
  int failed = ended ? 0 : 1;
  for (int rank = 0; rank < kRanks + kNewcomers; ++rank) {
    const auto& slot = board.slots[rank];
    const bool dies = rank == options.victim || rank == second;
    if (slot.state.load() == (dies ? RankState::kRunning : RankState::kDone)) continue;
    ++failed;
    std::printf("  rank %d, step %llu: %s\n", rank,
                static_cast<unsigned long long>(slot.step.load()), slot.message);
  }
  std::printf("edits, network %s, victim %d: %s\n", name_of(options.network), options.victim,
              failed == 0 ? "right" : "FAILED");
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using tutti::testing_support::into;
  tutti::kill_test::Options options;
  const bool understood = tutti::testing_support::read_options(
      argc, argv, {{"--network", into(options.network)}, {"--victim", into(options.victim)}});
  return understood ? tutti::kill_test::run(options) : 2;
}
