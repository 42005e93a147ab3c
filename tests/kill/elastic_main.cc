// elastic: ranks share a state, change it in every step, and lose one of them at a random instant;
// then a newcomer joins.
//
//   --network default|tcp|mixed   --seed S   --ranks N (default 4)   --steps T (default 40)
//
// An element becomes three times itself plus a sum over micro-batches that all ranks divide among
// themselves, so a step that is missing, or was done twice for some elements, shows at the end.
// Exit status: 0 the state is that of one process, 1 it is not, 2 the command line is wrong.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "include/tutti/runtime/elastic_plan.h"
#include "include/tutti/runtime/ordered_sum.h"
#include "include/tutti/runtime/surviving_state.h"
#include "src/base/prng.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::kill_test {
namespace {

using testing_support::now_ns;
using testing_support::sleep_ns;

constexpr int64_t kElements = 1003;
constexpr int64_t kMicroBatches = 10;
constexpr uint64_t kHangNs = 150'000'000'000;
constexpr int kMostProcesses = 17;

struct ElasticOptions {
  testing_support::Network network = testing_support::Network::kDefault;
  uint64_t seed = 1;
  int ranks = 4;
  int64_t steps = 40;

  int victim() const { return static_cast<int>(Prng(seed).below(static_cast<uint64_t>(ranks))); }
};

struct ElasticStage {
  tuttiUniqueId id, group_id;
  std::atomic<uint32_t> has_id, has_group_id, has_died, newcomer_waits, failed;
  std::atomic<int64_t> at_step[kMostProcesses];
  std::atomic<uint32_t> right;  // ranks whose state was right in the end
  char message[kMostProcesses][600];
};

float slope(int64_t step, int64_t number, int64_t element) {
  return static_cast<float>((step * 7 + number * 5 + element) % 9);
}

/// The state as one process has it.
std::vector<uint64_t> reference(int64_t steps) {
  std::vector<uint64_t> values;
  for (int64_t i = 0; i < kElements; ++i) {
    uint64_t value = static_cast<uint64_t>(i);
    for (int64_t step = 0; step < steps; ++step) {
      float sum = 0;
      for (int64_t n = 0; n < kMicroBatches; ++n) sum += slope(step, n, i);
      value = value * 3 + static_cast<uint64_t>(sum);
    }
    values.push_back(value);
  }
  return values;
}

class ElasticRank {
 public:
  ElasticRank(const ElasticOptions& options, ElasticStage& stage, int process)
      : options_(options), stage_(stage), process_(process) {}

  void run() {
    const bool joins = process_ >= options_.ranks;
    const tuttiResult_t made = joins ? join() : make();
    if (made != tuttiSuccess) throw std::runtime_error(tuttiGetLastError(nullptr));
    runtime::StepGroupSpec spec;
    spec.joins = joins;
    runtime::StepGroup group(comm_, spec);
    if (joins) group.caught_up();
    runtime::SurvivingState state(group, state_spec());
    runtime::OrderedSum sum(kElements, kMicroBatches, tuttiFloat32);
    while (group.step() < options_.steps) {
      stage_.at_step[process_].store(group.step());
      if (group.step() > 3) sleep_ns(1'000'000);
      if (process_ == keeper()) mind_the_newcomer(group);
      group.run([&] { step(group, state, sum); });
      state.committed();
    }
    std::vector<uint64_t> all(kElements);
    group.run([&] {
      state.begin();
      state.gather(std::as_writable_bytes(std::span(all)));
      state.end();
    });
    if (all != reference(options_.steps)) throw std::runtime_error("the state differs");
    stage_.right.fetch_add(1);
    tuttiBarrier(comm_, tuttiBlocking());
  }

 private:
  int keeper() const { return options_.victim() == 0 ? 1 : 0; }

  /// Nobody reaches the end before somebody has died and the newcomer is there.
  void mind_the_newcomer(runtime::StepGroup& group) {
    const bool is_late = group.step() + 5 > options_.steps;
    while (is_late && stage_.has_died.load() == 0) sleep_ns(1'000'000);
    const bool is_short = static_cast<int>(group.members().size()) < options_.ranks;
    while (is_late && is_short && stage_.newcomer_waits.load() == 0) sleep_ns(1'000'000);
    if (is_short && stage_.newcomer_waits.load() != 0) group.expect_newcomers(1);
  }

  tuttiResult_t make() {
    if (process_ == 0) {
      if (tuttiGetUniqueId(&stage_.id) != tuttiSuccess) throw std::runtime_error("no id");
      stage_.has_id.store(1);
    }
    while (stage_.has_id.load() == 0) sleep_ns(100'000);
    tuttiResult_t made = tuttiCommInitRank(&comm_, options_.ranks, stage_.id, process_);
    if (made == tuttiSuccess && process_ == keeper()) {
      made = tuttiCommGetUniqueId(comm_, &stage_.group_id);
      stage_.has_group_id.store(1);
    }
    return made;
  }

  tuttiResult_t join() {
    while (stage_.has_group_id.load() == 0 || stage_.has_died.load() == 0) sleep_ns(1'000'000);
    stage_.newcomer_waits.store(1);
    tuttiResult_t joined = tuttiRemoteError;
    for (int tries = 0; tries < 5 && joined == tuttiRemoteError; ++tries) {
      joined = tuttiCommJoin(&comm_, &stage_.group_id, nullptr);
    }
    return joined;
  }

  static runtime::SurvivingStateSpec state_spec() {
    runtime::SurvivingStateSpec spec;
    spec.elements = kElements;
    spec.element = runtime::Bytes(sizeof(uint64_t));
    spec.stripe = 16;
    spec.initial = [](int64_t begin, int64_t end, std::byte* elements) {
      for (; begin < end; ++begin, elements += sizeof begin) {
        std::memcpy(elements, &begin, sizeof begin);
      }
    };
    return spec;
  }

  static void step(runtime::StepGroup& group, runtime::SurvivingState& state,
                   runtime::OrderedSum& sum) {
    state.begin();
    sum.clear();
    const std::vector<int64_t> speeds(group.members().size(), 1);
    const std::vector<int64_t> counts = runtime::split_micro_batches(kMicroBatches, speeds);
    const auto rank = static_cast<size_t>(group.rank());
    int64_t number = 0;
    for (size_t r = 0; r < rank; ++r) number += counts[r];
    std::vector<float> values(kElements), total(kElements);
    for (const int64_t end = number + counts[rank]; number < end; ++number) {
      for (int64_t i = 0; i < kElements; ++i) {
        values[static_cast<size_t>(i)] = slope(group.step(), number, i);
      }
      sum.add(number, values.data());
    }
    sum.finish(group.comm(), total.data());
    std::byte* place = state.local().data();
    for (const runtime::Shard& shard : state.sharding().shards) {
      if (shard.rank != group.rank()) continue;
      for (int64_t i = shard.begin; i < shard.begin + shard.length; ++i) {
        uint64_t value = 0;
        std::memcpy(&value, place, sizeof value);
        value = value * 3 + static_cast<uint64_t>(total[static_cast<size_t>(i)]);
        std::memcpy(place, &value, sizeof value);
        place += sizeof value;
      }
    }
    state.end();
  }

  const ElasticOptions& options_;
  ElasticStage& stage_;
  const int process_;
  tuttiComm_t comm_ = nullptr;
};

int run_process(const ElasticOptions& options, ElasticStage& stage, int process) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto environment = testing_support::environment_of(options.network, process % 2, 2);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  try {
    ElasticRank(options, stage, process).run();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(stage.message[process], sizeof stage.message[process], "%s", error.what());
    stage.failed.store(1);
    return 1;
  }
}

int run(const ElasticOptions& options) {
  void* memory = mmap(nullptr, sizeof(ElasticStage), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  auto& stage = *new (memory) ElasticStage();
  std::vector<pid_t> pids;
  for (int process = 0; process <= options.ranks; ++process) {
    const pid_t pid = fork();
    if (pid == 0) _exit(run_process(options, stage, process));
    pids.push_back(pid);
  }
  const uint64_t end_ns = now_ns() + kHangNs;
  const int victim = options.victim();
  while (stage.at_step[victim].load() < 1 && stage.failed.load() == 0 && now_ns() < end_ns) {
    sleep_ns(100'000);
  }
  sleep_ns(Prng(options.seed * 7 + 1).below(40'000'000));
  kill(pids[static_cast<size_t>(victim)], SIGKILL);
  stage.has_died.store(1);
  bool hung = false;
  for (const pid_t pid : pids) {
    while (waitpid(pid, nullptr, WNOHANG) == 0) {
      if (now_ns() > end_ns || stage.failed.load() != 0) {
        hung = hung || stage.failed.load() == 0;
        sleep_ns(stage.failed.load() != 0 ? 1'000'000'000 : 0);
        kill(pid, SIGKILL);
      }
      sleep_ns(1'000'000);
    }
  }
  const bool is_right = stage.right.load() == static_cast<uint32_t>(options.ranks);
  for (int process = 0; process <= options.ranks && !is_right; ++process) {
    std::printf("  process %d, step %lld: %s\n", process,
                static_cast<long long>(stage.at_step[process].load()), stage.message[process]);
  }
  std::printf("elastic, network %s, seed %llu, victim %d in step %lld: %s\n",
              name_of(options.network), static_cast<unsigned long long>(options.seed), victim,
              static_cast<long long>(stage.at_step[victim].load()),
              hung       ? "HUNG"
              : is_right ? "right"
                         : "FAILED");
  return is_right ? 0 : 1;
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using tutti::testing_support::into;
  tutti::kill_test::ElasticOptions options;
  int steps = 40;
  const bool understood =
      tutti::testing_support::read_options(argc, argv,
                                           {{"--network", into(options.network)},
                                            {"--seed", into(options.seed)},
                                            {"--ranks", into(options.ranks)},
                                            {"--steps", into(steps)}});
  options.steps = steps;
  const bool fits = options.ranks >= 3 && options.ranks < tutti::kill_test::kMostProcesses;
  return understood && fits ? tutti::kill_test::run(options) : 2;
}
