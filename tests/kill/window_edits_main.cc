// window_edits: processes with open windows and registered memory are edited in place while one of
// them is killed or stopped.
//
//   --network default|tcp|mixed   --scenario kill|stop|replace   --seed S   --ranks N (default 4)
//
// Every rank puts a pattern into every other one's window, in a place of its own, signals, waits
// for the others' signals, looks at what has come, and takes part in a sum over registered memory;
// over and over. Meanwhile a rank dies, or is stopped, perhaps in the middle of a put. The others
// edit the communicator and go on; the removed rank's place they fill with marks. Patterns are
// short or long by the seed.
//
// stop     the first edit names the rank and has little time. On one host it may end in vain, which
//          changes nothing; the next one may kill. Where the rank lives it is woken up afterwards,
//          and no mark may change.
// replace  a newcomer takes the killed rank's number, and brings a part of the window
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/prng.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::kill_test {
namespace {

using testing_support::Board;
using testing_support::Member;
using testing_support::now_ns;
using testing_support::RankState;
using testing_support::sleep_ns;

constexpr uint64_t kHangNs = 120'000'000'000;
constexpr uint64_t kEditNs = 60'000'000'000;
constexpr uint64_t kShortEditNs = 3'000'000'000;
constexpr size_t kShort = 4096, kLong = 6 << 20;
constexpr size_t kSums = 16384;
constexpr int kMostRanks = 8;
constexpr unsigned char kMark = 0xEE;

struct WindowEditOptions {
  testing_support::Network network = testing_support::Network::kDefault;
  std::string scenario = "kill";
  uint64_t seed = 1;
  int ranks = 4;

  bool stops() const { return scenario == "stop"; }
  int newcomers() const { return scenario == "replace" ? 1 : 0; }
  size_t place_bytes() const { return seed % 2 == 0 ? kLong : kShort; }
  /// Registered memory keeps a stopped rank of this host from being removed without being killed.
  bool registers() const { return seed % 3 != 0; }
  bool on_one_host() const { return network == testing_support::Network::kDefault; }
  int victim() const {
    Prng random(seed);
    return static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
  }
};

/// Words of the processes to each other beside the communicator.
struct Stage {
  Board board;
  tuttiUniqueId group_id;
  std::atomic<uint32_t> has_group_id;
  std::atomic<uint32_t> rounds[kMostRanks];  // that were right, by process
  std::atomic<uint32_t> is_gone;             // the victim was killed or stopped
  std::atomic<uint32_t> is_putting;          // the victim
  std::atomic<uint32_t> end;
};

class WindowRank {
 public:
  WindowRank(Member member, const WindowEditOptions& options, Stage& stage)
      : member_(member), options_(options), stage_(stage) {}

  void run() {
    const bool is_old = member_.rank() < options_.ranks;
    if (!allocate() || !(is_old ? make() : join()) || !learn_numbers()) return;
    live();
  }

 private:
  bool fail(const std::string& what) {
    member_.fail(what);
    return false;
  }

  bool ok(tuttiResult_t result, const char* what) {
    if (result == tuttiSuccess) return true;
    return fail(std::string(what) + ": " + tuttiGetLastError(nullptr));
  }

  size_t bytes() const { return options_.place_bytes() * kMostRanks; }
  unsigned char* place(int number) const {
    return part_ + options_.place_bytes() * static_cast<size_t>(number);
  }

  bool allocate() {
    void *part = nullptr, *sums = nullptr;
    if (!ok(tuttiMemAlloc(&part, bytes()), "memory") ||
        !ok(tuttiMemAlloc(&sums, 2 * kSums * sizeof(int)), "memory")) {
      return false;
    }
    part_ = static_cast<unsigned char*>(part);
    sums_ = static_cast<int*>(sums);
    pattern_.resize(options_.place_bytes());
    return true;
  }

  bool make() {
    tuttiUniqueId id;
    if (!member_.take_id(id) ||
        !ok(tuttiCommInitRank(&comm_, options_.ranks, id, member_.rank()), "init") ||
        !ok(tuttiCommWindowRegister(comm_, part_, bytes(), &window_, 0), "window")) {
      return false;
    }
    void* handle = nullptr;
    if (options_.registers() &&
        !ok(tuttiCommRegister(comm_, sums_, 2 * kSums * sizeof(int), &handle), "register")) {
      return false;
    }
    const int keeper = options_.victim() == 0 ? 1 : 0;
    if (options_.newcomers() > 0 && member_.rank() == keeper) {
      if (!ok(tuttiCommGetUniqueId(comm_, &stage_.group_id), "group id")) return false;
      stage_.has_group_id.store(1);
    }
    return true;
  }

  bool join() {
    while (stage_.has_group_id.load() == 0) sleep_ns(1'000'000);
    tuttiWindowPart_t part = {part_, bytes(), nullptr};
    if (!ok(tuttiCommJoinWindows(&comm_, &stage_.group_id, nullptr, &part, 1), "join")) {
      return false;
    }
    window_ = part.window;
    return window_ != nullptr || fail("a newcomer has no window");
  }

  /// Which process has which rank now.
  bool learn_numbers() {
    int ranks = 0;
    if (!ok(tuttiCommCount(comm_, &ranks), "count") ||
        !ok(tuttiCommUserRank(comm_, &rank_), "rank") ||
        !ok(tuttiCommGetEpoch(comm_, &epoch_), "epoch")) {
      return false;
    }
    const int mine = member_.rank();
    numbers_.assign(static_cast<size_t>(ranks), -1);
    turn_ = 0;
    return ok(tuttiAllGather(&mine, numbers_.data(), 1, tuttiInt32, comm_, tuttiBlocking()),
              "numbers");
  }

  unsigned char byte_of(int number) const {
    return static_cast<unsigned char>(31 * number + 7 * turn_ + static_cast<int>(epoch_) + 1);
  }

  // Signals of an epoch that ended early may be left: each epoch has its own.
  tuttiResult_t put_to_all() {
    std::fill(pattern_.begin(), pattern_.end(), byte_of(member_.rank()));
    for (int peer = 0; peer < static_cast<int>(numbers_.size()); ++peer) {
      if (peer == rank_) continue;
      const bool is_victim = member_.rank() == options_.victim();
      if (is_victim) stage_.is_putting.store(1);
      const tuttiResult_t result = tuttiPutSignal(
          pattern_.data(), pattern_.size(), peer, window_,
          options_.place_bytes() * static_cast<size_t>(member_.rank()), epoch_, tuttiBlocking());
      if (is_victim) stage_.is_putting.store(0);
      if (result != tuttiSuccess) return result;
    }
    return tuttiSuccess;
  }

  tuttiResult_t await_all(bool& is_right) {
    for (int peer = 0; peer < static_cast<int>(numbers_.size()); ++peer) {
      if (peer == rank_) continue;
      const tuttiResult_t result = tuttiWaitSignal(peer, window_, epoch_, 1, tuttiBlocking());
      if (result != tuttiSuccess) return result;
      is_right = is_right && holds(numbers_[static_cast<size_t>(peer)],
                                   byte_of(numbers_[static_cast<size_t>(peer)]));
    }
    return tuttiSuccess;
  }

  bool holds(int number, unsigned char byte) {
    const unsigned char* const at = place(number);
    const auto count = std::count(at, at + options_.place_bytes(), byte);
    if (static_cast<size_t>(count) == options_.place_bytes()) return true;
    return fail("the place of process " + std::to_string(number) + " has " +
                std::to_string(options_.place_bytes() - static_cast<size_t>(count)) +
                " wrong bytes in turn " + std::to_string(turn_) + " of epoch " +
                std::to_string(epoch_));
  }

  /// Over memory that may be registered. Nobody puts again before all have looked.
  tuttiResult_t sum(bool& ends, bool& is_right) {
    int* const send = sums_;
    int* const recv = sums_ + kSums;
    std::fill(send, send + kSums, member_.rank() + 1);
    send[0] = static_cast<int>(stage_.end.load());
    const tuttiResult_t result =
        tuttiAllReduce(send, recv, kSums, tuttiInt32, tuttiSum, comm_, tuttiBlocking());
    if (result != tuttiSuccess) return result;
    int expected = 0;
    for (const int number : numbers_) expected += number + 1;
    ends = recv[0] != 0;
    const bool is_sum = std::all_of(recv + 1, recv + kSums, [&](int v) { return v == expected; });
    if (!is_sum) is_right = fail("a sum is wrong");
    return result;
  }

  void live() {
    for (;;) {
      bool ends = false, is_right = true;
      tuttiResult_t result = put_to_all();
      if (result == tuttiSuccess) result = await_all(is_right);
      if (result == tuttiSuccess && is_right) result = sum(ends, is_right);
      if (!is_right) return;
      ++turn_;
      if (result == tuttiSuccess) {
        stage_.rounds[member_.rank()].fetch_add(1);
        if (ends) break;
        continue;
      }
      if (options_.stops() && member_.rank() == options_.victim()) return end(false);
      if (result != tuttiRemoteError && result != tuttiTimeout) {
        fail(std::string("round: ") + tuttiGetLastError(nullptr));
        return;
      }
      if (!edit() || !learn_numbers()) return;
    }
    if (epoch_ > 0 && options_.newcomers() == 0 && !holds(options_.victim(), kMark)) return;
    end(true);
  }

  bool edit() {
    const int victim = options_.victim();
    tuttiEdit_t edit = TUTTI_EDIT_INITIALIZER;
    edit.timeout_ns = kEditNs;
    edit.remove_dead = options_.stops() ? 0 : 1;
    edit.removed = &victim;
    edit.removed_count = options_.stops() ? 1 : 0;
    edit.newcomers = options_.newcomers();
    tuttiEditReport_t report = {};
    report.size = sizeof report;
    tuttiResult_t result = tuttiSuccess;
    while (options_.stops() && stage_.is_gone.load() == 0) sleep_ns(1'000'000);
    if (options_.stops()) {
      const bool may_be_in_vain = options_.network != testing_support::Network::kTcp;
      if (may_be_in_vain) edit.timeout_ns = kShortEditNs;
      result = tuttiCommEdit(comm_, &edit, &report);
      if (result != tuttiSuccess && !check_in_vain(result)) return false;
      edit.timeout_ns = kEditNs;
      edit.kill_removed = 1;
    }
    if (!options_.stops() || result != tuttiSuccess) {
      for (int tries = 0; tries < 5; ++tries) {
        result = tuttiCommEdit(comm_, &edit, &report);
        if (result != tuttiRemoteError) break;
      }
    }
    if (!ok(result, "edit")) return false;
    if (options_.newcomers() == 0) std::memset(place(victim), kMark, options_.place_bytes());
    return check_report(report);
  }

  // A rank that has waited for the stopped one itself says so; the others have waited for these.
  bool check_in_vain(tuttiResult_t result) {
    const std::string why = tuttiGetLastError(nullptr);
    const bool is_named = why.find("may still write to") != std::string::npos;
    const bool is_late = why.find("have not agreed on the next epoch") != std::string::npos;
    int rank = -1;
    uint32_t epoch = ~0u;
    if (!ok(tuttiCommUserRank(comm_, &rank), "rank") ||
        !ok(tuttiCommGetEpoch(comm_, &epoch), "epoch")) {
      return false;
    }
    const bool is_as_before = result == tuttiTimeout && rank == member_.rank() && epoch == 0;
    if (options_.network == testing_support::Network::kTcp) return fail("over TCP: " + why);
    return (is_as_before && (is_named || is_late)) || fail("the edit in vain: " + why);
  }

  bool check_report(const tuttiEditReport_t& report) {
    const int registrations = options_.registers() && options_.newcomers() == 0 ? 1 : 0;
    return (report.windows_kept == 1 && report.registrations_kept == registrations) ||
           fail("the report has " + std::to_string(report.windows_kept) + " windows and " +
                std::to_string(report.registrations_kept) + " registrations");
  }

  void end(bool in_order) {
    if (in_order && !ok(tuttiCommDestroy(comm_), "destroy")) return;
    if (!in_order) tuttiCommAbort(comm_);
    RankState running = RankState::kRunning;
    member_.board().slots[member_.rank()].state.compare_exchange_strong(running, RankState::kDone);
  }

  Member member_;
  const WindowEditOptions& options_;
  Stage& stage_;
  unsigned char* part_ = nullptr;
  int* sums_ = nullptr;
  std::vector<unsigned char> pattern_;
  tuttiComm_t comm_ = nullptr;
  tuttiWindow_t window_ = nullptr;
  std::vector<int> numbers_;  // processes by rank
  int rank_ = -1;
  int turn_ = 0;
  uint32_t epoch_ = 0;
};

/// The parent: it forks the ranks, and kills, stops and wakes one.
class WindowEdits {
 public:
  WindowEdits(const WindowEditOptions& options, Stage& stage)
      : options_(options), stage_(stage), random_(options.seed + 1000) {}

  int run() {
    const int all = options_.ranks + options_.newcomers();
    for (int rank = 0; rank < all; ++rank) start(rank, all);
    const int victim = options_.victim();
    await_rounds(3);
    sleep_ns(random_.below(30'000'000));
    // Half of them in a long put, where the machine lets them.
    const uint64_t until_ns = now_ns() + 1'000'000'000;
    const bool is_long = options_.place_bytes() == kLong;
    while (is_long && stage_.is_putting.load() == 0 && now_ns() < until_ns) {
    }
    kill(pids_[static_cast<size_t>(victim)], options_.stops() ? SIGSTOP : SIGKILL);
    is_killed_ = !options_.stops();
    stage_.is_gone.store(1);
    await_rounds(5);
    if (options_.stops()) wake(victim);
    await_rounds(5);
    stage_.end.store(1);
    const bool ended = reap();
    return judge(ended, all);
  }

 private:
  void start(int rank, int all) {
    const pid_t pid = fork();
    if (pid != 0) {
      pids_.push_back(pid);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto environment = testing_support::environment_of(options_.network, rank % 2, 2);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    setenv("TUTTI_INIT_TIMEOUT", "100", 1);
    if (options_.stops()) setenv("TUTTI_TIMEOUT", "2", 1);
    WindowRank(Member(stage_.board, rank, all), options_, stage_).run();
    _exit(0);
  }

  /// It ends by itself, or an edit has killed it.
  void wake(int victim) {
    const pid_t pid = pids_[static_cast<size_t>(victim)];
    kill(pid, SIGCONT);
    const uint64_t end_ns = now_ns() + kHangNs;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0 && now_ns() < end_ns) sleep_ns(1'000'000);
    is_killed_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    pids_[static_cast<size_t>(victim)] = -1;
  }

  /// Until every rank that is not gone has had so many more rounds.
  void await_rounds(uint32_t more) {
    std::vector<uint32_t> wanted;
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      wanted.push_back(stage_.rounds[rank].load() + more);
    }
    const uint64_t end_ns = now_ns() + kHangNs;
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      const auto at = static_cast<size_t>(rank);
      const auto is_out = [&] {
        const bool is_gone = stage_.is_gone.load() != 0;
        return is_gone ? rank == options_.victim() : rank >= options_.ranks;
      };
      while (!is_out() && now_ns() < end_ns && stage_.rounds[at].load() < wanted[at] &&
             stage_.board.slots[at].state.load() == RankState::kRunning) {
        sleep_ns(200'000);
      }
    }
  }

  bool reap() {
    const uint64_t end_ns = now_ns() + kHangNs;
    bool all_ended = true;
    for (const pid_t pid : pids_) {
      while (pid > 0 && waitpid(pid, nullptr, WNOHANG) == 0) {
        if (now_ns() > end_ns) {
          all_ended = false;
          kill(pid, SIGKILL);
          waitpid(pid, nullptr, 0);
          break;
        }
        sleep_ns(1'000'000);
      }
    }
    return all_ended;
  }

  int judge(bool ended, int all) {
    int failed = ended ? 0 : 1;
    for (int rank = 0; rank < all; ++rank) {
      const auto& slot = stage_.board.slots[rank];
      const bool was_killed = is_killed_ && rank == options_.victim();
      if (was_killed || slot.state.load() == RankState::kDone) continue;
      ++failed;
      std::printf("  process %d, %u rounds: %s\n", rank, stage_.rounds[rank].load(), slot.message);
    }
    std::printf("window_edits %s, network %s, seed %llu: %s%s\n", options_.scenario.c_str(),
                name_of(options_.network), static_cast<unsigned long long>(options_.seed),
                failed == 0 ? "right" : "FAILED",
                options_.stops() && is_killed_ ? ", with a kill" : "");
    return failed == 0 ? 0 : 1;
  }

  const WindowEditOptions& options_;
  Stage& stage_;
  Prng random_;
  std::vector<pid_t> pids_;
  bool is_killed_ = false;
};

int run(const WindowEditOptions& options) {
  void* memory =
      mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  return WindowEdits(options, *new (memory) Stage()).run();
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using tutti::testing_support::into;
  tutti::kill_test::WindowEditOptions options;
  const bool understood =
      tutti::testing_support::read_options(argc, argv,
                                           {{"--network", into(options.network)},
                                            {"--scenario", into(options.scenario)},
                                            {"--seed", into(options.seed)},
                                            {"--ranks", into(options.ranks)}});
  const std::string& name = options.scenario;
  const bool is_known = (name == "kill" || name == "stop" || name == "replace") &&
                        options.ranks + options.newcomers() <= tutti::kill_test::kMostRanks;
  return understood && is_known ? tutti::kill_test::run(options) : 2;
}
