// Two programs in which processes edit their communicator while ranks of it die or stop have this
// in common: how a rank fails and ends, and the parent, which forks the ranks and waits.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "src/base/prng.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::kill_test {

using testing_support::Member;
using testing_support::now_ns;
using testing_support::RankState;
using testing_support::sleep_ns;

inline constexpr uint64_t kHangNs = 120'000'000'000;
inline constexpr uint64_t kEditNs = 60'000'000'000;
inline constexpr int kMostProcesses = 16;

struct EditOptions {
  testing_support::Network network = testing_support::Network::kDefault;
  std::string scenario = "kill";
  uint64_t seed = 1;
  int ranks = 4;

  int victim() const {
    Prng random(seed);
    return static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
  }
  /// A rank that stays.
  int keeper() const { return victim() == 0 ? 1 : 0; }

  /// --network, --scenario, which is one of `scenarios`, --seed and --ranks.
  bool read(int argc, char** argv, const std::vector<std::string>& scenarios) {
    using testing_support::into;
    const bool understood = testing_support::read_options(argc, argv,
                                                          {{"--network", into(network)},
                                                           {"--scenario", into(scenario)},
                                                           {"--seed", into(seed)},
                                                           {"--ranks", into(ranks)}});
    return understood && std::find(scenarios.begin(), scenarios.end(), scenario) != scenarios.end();
  }
};

/// Words of the processes to each other beside the communicator.
struct EditStage {
  testing_support::Board board;
  tuttiUniqueId group_id;
  std::atomic<uint32_t> has_group_id;
  std::atomic<uint32_t> rounds[kMostProcesses];  // that were right, by process
  std::atomic<uint32_t> end;
};

class EditedRank {
 protected:
  EditedRank(Member member, EditStage& stage) : member_(member), stage_(stage) {}

  bool fail(const std::string& what) {
    member_.fail(what);
    return false;
  }
  bool ok(tuttiResult_t result, const char* what) {
    return result == tuttiSuccess || fail(std::string(what) + ": " + tuttiGetLastError(nullptr));
  }

  /// For newcomers.
  bool show_group_id() {
    if (!ok(tuttiCommGetUniqueId(comm_, &stage_.group_id), "group id")) return false;
    stage_.has_group_id.store(1);
    return true;
  }
  void await_group_id() const {
    while (stage_.has_group_id.load() == 0) sleep_ns(1'000'000);
  }

  void end(bool in_order) {
    if (in_order && !ok(tuttiCommDestroy(comm_), "destroy")) return;
    if (!in_order) tuttiCommAbort(comm_);
    RankState running = RankState::kRunning;
    member_.board().slots[member_.rank()].state.compare_exchange_strong(running, RankState::kDone);
  }

  Member member_;
  tuttiComm_t comm_ = nullptr;

 private:
  EditStage& stage_;
};

/// The parent of the processes.
class EditDriver {
 protected:
  using Settings = std::vector<std::pair<const char*, const char*>>;

  EditDriver(const EditOptions& options, EditStage& stage) : options_(options), stage_(stage) {}

  /// Forks all processes; every second one is on another host.
  void start(int all, const Settings& settings, const std::function<void(Member)>& run) {
    for (int rank = 0; rank < all; ++rank) {
      const pid_t pid = fork();
      if (pid != 0) {
        pids_.push_back(pid);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const auto environment = testing_support::environment_of(options_.network, rank % 2, 2);
      for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
      setenv("TUTTI_INIT_TIMEOUT", "100", 1);
      for (const auto& [name, value] : settings) setenv(name, value, 1);
      run(Member(stage_.board, rank, all));
      _exit(0);
    }
  }

  /// Until every rank that is not out has had so many more rounds.
  void await_rounds(uint32_t more, const std::function<bool(int rank)>& is_out) const {
    std::vector<uint32_t> wanted;
    for (size_t rank = 0; rank < pids_.size(); ++rank) {
      wanted.push_back(stage_.rounds[rank].load() + more);
    }
    const uint64_t end_ns = now_ns() + kHangNs;
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      const auto at = static_cast<size_t>(rank);
      while (!is_out(rank) && now_ns() < end_ns && stage_.rounds[at].load() < wanted[at] &&
             stage_.board.slots[at].state.load() == RankState::kRunning) {
        sleep_ns(200'000);
      }
    }
  }

  /// Waits for all that have not been waited for. False: some had to be killed.
  bool reap() const {
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

  /// Prints the verdict on the processes but those that were killed. Returns the exit status.
  int judge(const char* program, bool ended, const std::function<bool(int rank)>& was_killed,
            const char* remark = "") const {
    int failed = ended ? 0 : 1;
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      const auto& slot = stage_.board.slots[rank];
      if (was_killed(rank) || slot.state.load() == RankState::kDone) continue;
      ++failed;
      std::printf("  process %d, %u rounds: %s\n", rank, stage_.rounds[rank].load(), slot.message);
    }
    std::printf("%s %s, network %s, seed %llu: %s%s\n", program, options_.scenario.c_str(),
                name_of(options_.network), static_cast<unsigned long long>(options_.seed),
                failed == 0 ? "right" : "FAILED", remark);
    return failed == 0 ? 0 : 1;
  }

  std::vector<pid_t> pids_;  // -1 once it was waited for

 private:
  const EditOptions& options_;
  EditStage& stage_;
};

/// Runs the driver on a stage that its processes share. Returns the exit status.
template <class Driver, class Stage, class Options>
int run_edits(const Options& options) {
  void* memory =
      mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  return Driver(options, *new (memory) Stage()).run();
}

}  // namespace tutti::kill_test
