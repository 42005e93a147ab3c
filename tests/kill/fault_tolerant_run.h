// A run of fault_tolerant (fault_tolerant_main.cc): its options, who dies when, and the memory in
// which its processes say what they have seen.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "include/tutti/tutti.h"
#include "src/base/prng.h"
#include "tests/support/team.h"

namespace tutti::kill_test {

inline constexpr int kMostRanks = 16;
inline constexpr int kMostSteps = 4096;
inline constexpr int kCounts[] = {3, 1000, 40'000};  // of the calls of a step
inline constexpr int kCalls = 3;

struct SurvivalOptions {
  testing_support::Network network = testing_support::Network::kDefault;
  std::string scenario = "random";
  uint64_t seed = 1;
  int ranks = 4;
  int shards = 1;
  int steps = 30;
};

/// The account that a rank gives of a step.
struct StepEntry {
  std::atomic<uint64_t> hash;  // of parameters and report; 0: nothing yet
  std::atomic<uint64_t> members;
  std::atomic<int64_t> divisor;
  std::atomic<uint32_t> epoch;
};

struct SurvivalStage {
  tuttiUniqueId id, group_id;
  std::atomic<uint32_t> has_id, has_group_id;
  std::atomic<int64_t> at_step[2 * kMostRanks];  // of processes
  std::atomic<uint32_t> caught_up;               // newcomers
  std::atomic<uint32_t> newcomers_wait;          // they have begun to join
  std::atomic<int64_t> last_step;                // -1: go on
  std::atomic<int64_t> died_in;                  // the step in which the victim knew that it dies
  std::atomic<uint32_t> failed;
  StepEntry entries[2 * kMostRanks][kMostSteps];
  char message[2 * kMostRanks][600];
};

/// Everything that the processes of a run agree on beforehand.
struct SurvivalCast {
  int victim, other;  // processes; `other` sees or misses what the victim does not
  int64_t step;       // in which it happens
  bool loses_replica_of(int process, const SurvivalOptions& options) const {
    const int replica = process / options.shards;
    return replica == victim / options.shards ||
           (options.scenario == "edit" && replica == other / options.shards);
  }
  explicit SurvivalCast(const SurvivalOptions& options) {
    Prng random(options.seed);
    const auto ranks = static_cast<uint64_t>(options.ranks);
    victim = static_cast<int>(random.below(ranks));
    // Of another replica.
    const int replicas = options.ranks / options.shards;
    const int away = 1 + static_cast<int>(random.below(static_cast<uint64_t>(replicas - 1)));
    other = (victim + away * options.shards) % options.ranks;
    step = 3 + static_cast<int64_t>(random.below(8));
  }
};

/// All that wrote a step must have written the same; "" where these two have.
inline std::string difference(int64_t step, int process, const StepEntry& one,
                              const StepEntry& other) {
  const auto both = [](const char* name, auto a, auto b) {
    return std::string(", ") + name + " " + std::to_string(a) + " and " + std::to_string(b);
  };
  const bool same =
      one.hash.load() == other.hash.load() && one.members.load() == other.members.load() &&
      one.divisor.load() == other.divisor.load() && one.epoch.load() == other.epoch.load();
  if (same) return "";
  return "process " + std::to_string(process) + " differs from the first about step " +
         std::to_string(step) + both("members", one.members.load(), other.members.load()) +
         both("divisor", one.divisor.load(), other.divisor.load()) +
         both("epoch", one.epoch.load(), other.epoch.load()) +
         both("hash", one.hash.load(), other.hash.load());
}

}  // namespace tutti::kill_test
