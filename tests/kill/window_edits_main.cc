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
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/kill/edit_driver.h"

namespace tutti::kill_test {
namespace {

constexpr uint64_t kShortEditNs = 3'000'000'000;
constexpr size_t kShort = 4096, kLong = 6 << 20;
constexpr size_t kSums = 16384;
constexpr int kMostRanks = 8;
constexpr unsigned char kMark = 0xEE;

struct WindowEditOptions : EditOptions {
  bool stops() const { return scenario == "stop"; }
  int newcomers() const { return scenario == "replace" ? 1 : 0; }
  size_t place_bytes() const { return seed % 2 == 0 ? kLong : kShort; }
  /// Registered memory keeps a stopped rank of this host from being removed without being killed.
  bool registers() const { return seed % 3 != 0; }
  bool on_one_host() const { return network == testing_support::Network::kDefault; }
};

struct Stage : EditStage {
  std::atomic<uint32_t> is_gone;     // the victim was killed or stopped
  std::atomic<uint32_t> is_putting;  // the victim
};

class WindowRank : EditedRank {
 public:
  WindowRank(Member member, const WindowEditOptions& options, Stage& stage)
      : EditedRank(member, stage), options_(options), stage_(stage) {}

  void run() {
    const bool is_old = member_.rank() < options_.ranks;
    if (!allocate() || !(is_old ? make() : join()) || !learn_numbers()) return;
    live();
  }

 private:
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
    const bool shows = options_.newcomers() > 0 && member_.rank() == options_.keeper();
    if (shows && !show_group_id()) return false;
    return true;
  }

  bool join() {
    await_group_id();
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
      if (options_.stops() && member_.rank() == options_.victim()) return end_woken();
      if (result != tuttiRemoteError && result != tuttiTimeout) {
        fail(std::string("round: ") + tuttiGetLastError(nullptr));
        return;
      }
      if (!edit() || !learn_numbers()) return;
    }
    if (epoch_ > 0 && options_.newcomers() == 0 && !holds(options_.victim(), kMark)) return;
    end(true);
  }

  /// The rank that was stopped. It must not take itself for one that waits for the others.
  void end_woken() {
    const std::string why = tuttiGetLastError(nullptr);
    if (why.find("in a circle") != std::string::npos) {
      fail("of itself it says: " + why);
      return;
    }
    end(false);
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
        if (is_without_victim()) edit.removed_count = 0;
        result = tuttiCommEdit(comm_, &edit, &report);
        if (result != tuttiRemoteError) break;
      }
    }
    if (!ok(result, "edit")) return false;
    if (options_.newcomers() == 0) std::memset(place(victim), kMark, options_.place_bytes());
    return check_report(report);
  }

  /// An edit that failed may have been agreed on before: the next one only makes its links.
  bool is_without_victim() {
    uint32_t epoch = 0;
    return ok(tuttiCommGetEpoch(comm_, &epoch), "epoch") && epoch > 0;
  }

  // A rank that has waited for the stopped one itself says so; the others have waited for these. On
  // a slow machine they may have agreed, and no time was left for the links.
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
    const bool is_stranded = epoch == 1 && why.find("stands in epoch 1") != std::string::npos;
    if (options_.network == testing_support::Network::kTcp) return fail("over TCP: " + why);
    return is_stranded || (is_as_before && (is_named || is_late)) ||
           fail("the edit in vain: " + why);
  }

  bool check_report(const tuttiEditReport_t& report) {
    const int registrations = options_.registers() && options_.newcomers() == 0 ? 1 : 0;
    return (report.windows_kept == 1 && report.registrations_kept == registrations) ||
           fail("the report has " + std::to_string(report.windows_kept) + " windows and " +
                std::to_string(report.registrations_kept) + " registrations");
  }

  const WindowEditOptions& options_;
  Stage& stage_;
  unsigned char* part_ = nullptr;
  int* sums_ = nullptr;
  std::vector<unsigned char> pattern_;
  tuttiWindow_t window_ = nullptr;
  std::vector<int> numbers_;  // processes by rank
  int rank_ = -1;
  int turn_ = 0;
  uint32_t epoch_ = 0;
};

/// The parent: it forks the ranks, and kills, stops and wakes one.
class WindowEdits : EditDriver {
 public:
  WindowEdits(const WindowEditOptions& options, Stage& stage)
      : EditDriver(options, stage),
        options_(options),
        stage_(stage),
        random_(options.seed + 1000) {}

  int run() {
    Settings settings;
    if (options_.stops()) settings.emplace_back("TUTTI_TIMEOUT", "2");
    start(options_.ranks + options_.newcomers(), settings,
          [&](Member member) { WindowRank(member, options_, stage_).run(); });
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
    return judge(
        "window_edits", ended, [&](int rank) { return is_killed_ && rank == victim; },
        options_.stops() && is_killed_ ? ", with a kill" : "");
  }

 private:
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

  void await_rounds(uint32_t more) const {
    EditDriver::await_rounds(more, [&](int rank) {
      const bool is_gone = stage_.is_gone.load() != 0;
      return is_gone ? rank == options_.victim() : rank >= options_.ranks;
    });
  }

  const WindowEditOptions& options_;
  Stage& stage_;
  Prng random_;
  bool is_killed_ = false;
};

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using namespace tutti::kill_test;
  WindowEditOptions options;
  const bool understood = options.read(argc, argv, {"kill", "stop", "replace"}) &&
                          options.ranks + options.newcomers() <= kMostRanks;
  return understood ? run_edits<WindowEdits, Stage>(options) : 2;
}
