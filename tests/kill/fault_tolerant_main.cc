// fault_tolerant: ranks train by the all_reduce that survives, while one of them is killed.
//
//   --network default|tcp|mixed   --scenario NAME   --seed S   --ranks N (default 4)
//   --shards K (default 1)   --steps T (default 30)
//
// random     a random rank is killed at a random instant
// late       it dies when it has seen the commit of a step, and another one has not
// one_saw    it dies when its work is done, and one of the others has seen the commit
// commit     it dies between its work and its word of the commit
// edit       it dies while the others edit because of another one that was killed
// Then a new replica joins, loads the state beside the steps, and catches up.
//
// Each rank writes what each step was into memory that all share: who took part, the divisor, and a
// hash of its parameters. All that were alive must have written the same. Exit status: 0 all was
// right, 1 it was not, 2 the command line is wrong.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "include/tutti/runtime/fault_tolerant.h"
#include "src/base/prng.h"
#include "tests/kill/fault_tolerant_run.h"
#include "tests/support/options.h"
#include "tests/support/team.h"

namespace tutti::kill_test {
namespace {

using runtime::FaultTolerantAllReduce;
using runtime::FaultTolerantSpec;
using runtime::StepInstant;
using runtime::StepMember;
using runtime::StepReport;
using testing_support::now_ns;
using testing_support::sleep_ns;

constexpr uint64_t kHangNs = 150'000'000'000;

class SurvivingRank {
 public:
  SurvivingRank(const SurvivalOptions& options, SurvivalStage& stage, int process)
      : options_(options), stage_(stage), process_(process), cast_(options) {}

  bool joins() const { return process_ >= options_.ranks; }
  int shard() const { return process_ % options_.shards; }
  int replica() const { return process_ / options_.shards; }

  void run() {
    expect(joins() ? join() : make(), "the making");
    FaultTolerantSpec spec;
    spec.group.shards = options_.shards;
    spec.group.shard = shard();
    spec.group.replica = replica();
    spec.group.joins = joins();
    spec.group.at_instant = [this](StepInstant instant) { return at(instant); };
    FaultTolerantAllReduce reduce(comm_, spec);
    reduce_ = &reduce;
    for (int call = 0; call < kCalls; ++call) {
      parameters_[call].assign(static_cast<size_t>(kCounts[call]), 0);
      gradients_[call].assign(static_cast<size_t>(kCounts[call]), 0);
      results_[call].assign(static_cast<size_t>(kCounts[call]), 0);
    }
    if (joins()) load_begins();
    while (!ends()) step();
    tuttiBarrier(comm_, tuttiBlocking());
  }

 private:
  static void expect(tuttiResult_t result, const char* what) {
    if (result == tuttiSuccess) return;
    throw std::runtime_error(std::string(what) + ": " + tuttiGetLastError(nullptr));
  }

  tuttiResult_t make() {
    if (process_ == 0) {
      expect(tuttiGetUniqueId(&stage_.id), "id");
      stage_.has_id.store(1);
    }
    while (stage_.has_id.load() == 0) sleep_ns(100'000);
    const tuttiResult_t made = tuttiCommInitRank(&comm_, options_.ranks, stage_.id, process_);
    if (made == tuttiSuccess && process_ == keeper()) {
      expect(tuttiCommGetUniqueId(comm_, &stage_.group_id), "group id");
      stage_.has_group_id.store(1);
    }
    return made;
  }

  /// It lives, and hands the id and the state to newcomers.
  int keeper() const {
    for (int process = 0;; ++process) {
      if (!cast_.loses_replica_of(process, options_)) return process;
    }
  }

  tuttiResult_t join() {
    while (stage_.has_group_id.load() == 0 || stage_.died_in.load() < 0) sleep_ns(1'000'000);
    stage_.newcomers_wait.fetch_add(1);
    // Somebody may die while the epoch is made.
    tuttiResult_t joined = tuttiRemoteError;
    for (int tries = 0; tries < 5 && joined == tuttiRemoteError; ++tries) {
      joined = tuttiCommJoin(&comm_, &stage_.group_id, nullptr);
    }
    return joined;
  }

  bool ends() const {
    const int64_t last = stage_.last_step.load();
    return last >= 0 && reduce_->step() > last;
  }

  void die() const {
    stage_.died_in.store(reduce_ == nullptr ? 0 : reduce_->step());
    kill(getpid(), SIGKILL);
  }

  bool at(StepInstant instant) {
    const bool is_victim = process_ == cast_.victim;
    const std::string& name = options_.scenario;
    if (reduce_ == nullptr || joins()) return true;
    const bool is_step = reduce_->step() == cast_.step && !has_happened_;
    if (name == "commit" && is_step && is_victim && instant == StepInstant::kWorked) die();
    // The victim has seen the commit and dies; all others are made not to have seen it, but one
    // in "one_saw".
    const bool decides = (name == "late" || name == "one_saw") && is_step;
    if (decides && instant == StepInstant::kCommitted) {
      has_happened_ = true;
      if (is_victim) die();
      return name == "one_saw" && process_ == cast_.other;
    }
    if (name == "edit" && is_step && is_victim && instant == StepInstant::kWorked) die();
    if (name == "edit" && !is_victim && process_ == cast_.other &&
        instant == StepInstant::kEdited) {
      kill(getpid(), SIGKILL);
    }
    return true;
  }

  /// Exact in float and bfloat16, and another one on each rank.
  float gradient(int64_t step, int call, size_t i) const {
    const auto mixed = static_cast<uint64_t>(step) * 31 + static_cast<uint64_t>(call) * 7 + i;
    return static_cast<float>(static_cast<int>(mixed % 5) + replica() - 1);
  }

  void step() {
    const int64_t step = reduce_->step();
    stage_.at_step[process_].store(step);
    for (int call = 0; call < kCalls; ++call) {
      for (size_t i = 0; i < gradients_[call].size(); ++i) {
        gradients_[call][i] = joins() && !loaded_ ? 1e9f : gradient(step, call, i);
      }
      // The last one is in place.
      float* result = call + 1 == kCalls ? gradients_[call].data() : results_[call].data();
      reduce_->all_reduce(gradients_[call].data(), result, kCounts[call], tuttiFloat32,
                          call == 0 ? tuttiSum : tuttiAvg);
    }
    const bool they_wait = stage_.newcomers_wait.load() == uint32_t(options_.shards);
    if (process_ == keeper() && they_wait && !sent_) {
      reduce_->group().expect_newcomers(options_.shards);
    }
    const StepReport report = reduce_->step_commit();
    if (report.step != step) throw std::runtime_error("a step is missing");
    if (step + 10 > kMostSteps) throw std::runtime_error("too many steps");
    if (step > 100) sleep_ns(step > 1000 ? 50'000'000 : 5'000'000);
    apply(report);
    send_state();
  }

  const float* result_of(int call) const {
    return call + 1 == kCalls ? gradients_[call].data() : results_[call].data();
  }

  void add(int call, const float* result) {
    for (size_t i = 0; i < parameters_[call].size(); ++i) parameters_[call][i] += result[i];
  }

  void apply(const StepReport& report) {
    if (!joins() || added_) {
      for (int call = 0; call < kCalls; ++call) add(call, result_of(call));
    }
    if (joins() && !loaded_) load_goes_on();
    if (!joins() || loaded_) write(report);
  }

  void write(const StepReport& report) {
    StepEntry& entry = stage_.entries[process_][report.step];
    uint64_t state = 1, members = 0;
    for (int call = 0; call < kCalls; ++call) {
      for (const float value : parameters_[call]) {
        uint32_t bits = 0;
        std::memcpy(&bits, &value, sizeof bits);
        state = state * 1099511628211u + bits;
      }
    }
    for (const StepMember& member : report.members) {
      if (member.counted)
        members |= uint64_t{1} << (member.replica * options_.shards + member.shard);
    }
    entry.members.store(members);
    entry.divisor.store(report.divisor);
    entry.epoch.store(report.epoch);
    entry.hash.store(state | 1);
  }

  // A newcomer keeps the results from its first step on, until it has the state before that step.
  void send_state() {
    if (replica() != keeper() / options_.shards || sent_) return;
    for (const StepMember& member : reduce_->group().members()) {
      const int64_t process = member.replica * options_.shards + member.shard;
      if (process < options_.ranks || member.shard != shard()) continue;
      sent_ = true;
      for (int call = 0; call < kCalls; ++call) {
        std::memcpy(stage_state(call), parameters_[call].data(),
                    parameters_[call].size() * sizeof(float));
      }
      state_ready().store(1);
    }
  }

  /// Where the state passes to the newcomer, beside the communicator.
  float* stage_state(int call) const {
    size_t offset = 0;
    for (int i = 0; i < call; ++i) offset += static_cast<size_t>(kCounts[i]);
    return state_ + offset;
  }
  std::atomic<uint32_t>& state_ready() const { return ready_[shard()]; }

 public:
  void use_state(float* memory, std::atomic<uint32_t>* ready) {
    size_t all = 0;
    for (const int count : kCounts) all += static_cast<size_t>(count);
    state_ = memory + all * static_cast<size_t>(shard());
    ready_ = ready;
  }

 private:
  void load_begins() { first_step_ = reduce_->step(); }

  void load_goes_on() {
    if (added_) {
      loaded_ = reduce_->group().counted();
      if (loaded_) stage_.caught_up.fetch_add(1);
      return;
    }
    std::vector<std::vector<float>> kept;
    for (int call = 0; call < kCalls; ++call) {
      kept.emplace_back(result_of(call), result_of(call) + kCounts[call]);
    }
    kept_.push_back(std::move(kept));
    // Some steps later than it could, so that it takes part without being counted.
    if (state_ready().load() == 0 || reduce_->step() < first_step_ + 4) return;
    for (int call = 0; call < kCalls; ++call) {
      std::memcpy(parameters_[call].data(), stage_state(call),
                  parameters_[call].size() * sizeof(float));
      for (const auto& results : kept_) add(call, results[static_cast<size_t>(call)].data());
    }
    added_ = true;
    reduce_->group().caught_up();
  }

  const SurvivalOptions& options_;
  SurvivalStage& stage_;
  const int process_;
  const SurvivalCast cast_;
  tuttiComm_t comm_ = nullptr;
  FaultTolerantAllReduce* reduce_ = nullptr;
  std::vector<float> parameters_[kCalls], gradients_[kCalls], results_[kCalls];
  std::vector<std::vector<std::vector<float>>> kept_;  // of each step, of each call
  float* state_ = nullptr;
  std::atomic<uint32_t>* ready_ = nullptr;
  int64_t first_step_ = 0;
  bool has_happened_ = false, sent_ = false, added_ = false, loaded_ = false;
};

/// The parent: it forks the processes, kills, and compares what they wrote.
class SurvivalDirector {
 public:
  SurvivalDirector(const SurvivalOptions& options, SurvivalStage& stage, float* state,
                   std::atomic<uint32_t>* ready)
      : options_(options), stage_(stage), state_(state), ready_(ready), cast_(options) {}

  int run() {
    stage_.last_step.store(-1);
    stage_.died_in.store(-1);
    for (int process = 0; process < processes(); ++process) start(process);
    if (options_.scenario == "random") kill_at_random();
    const bool all_came = await_newcomers();
    int64_t last = 0;
    for (const auto& step : stage_.at_step) last = std::max(last, step.load());
    stage_.last_step.store(std::max<int64_t>(last + 5, options_.steps));
    const bool ended = reap() && all_came;
    return judge(ended);
  }

 private:
  int processes() const { return options_.ranks + options_.shards; }

  void start(int process) {
    const pid_t pid = fork();
    if (pid != 0) {
      pids_.push_back(pid);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto environment = testing_support::environment_of(options_.network, process % 2, 2);
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    SurvivingRank rank(options_, stage_, process);
    rank.use_state(state_, ready_);
    try {
      rank.run();
    } catch (const std::exception& error) {
      const bool leaves = cast_.loses_replica_of(process, options_) &&
                          std::strstr(error.what(), "and leaves") != nullptr;
      std::snprintf(stage_.message[process], sizeof stage_.message[process], "%s", error.what());
      if (!leaves) stage_.failed.store(1);
      _exit(leaves ? 0 : 1);
    }
    _exit(0);
  }

  void kill_at_random() {
    Prng random(options_.seed * 77 + 5);
    while (stage_.at_step[cast_.victim].load() < 2) sleep_ns(100'000);
    sleep_ns(random.below(60'000'000));
    kill(pids_[static_cast<size_t>(cast_.victim)], SIGKILL);
    stage_.died_in.store(stage_.at_step[cast_.victim].load());
  }

  bool await_newcomers() const {
    const uint64_t end_ns = now_ns() + kHangNs;
    while (stage_.caught_up.load() < uint32_t(options_.shards) && now_ns() < end_ns) {
      if (stage_.failed.load() != 0) return false;
      sleep_ns(1'000'000);
    }
    return stage_.caught_up.load() == uint32_t(options_.shards);
  }

  bool reap() {
    const uint64_t end_ns = now_ns() + kHangNs;
    bool all_ended = true;
    for (const pid_t pid : pids_) {
      int status = 0;
      while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ns() > end_ns) {
          all_ended = false;
          kill(pid, SIGKILL);
          waitpid(pid, &status, 0);
          break;
        }
        sleep_ns(1'000'000);
      }
      if (WIFEXITED(status) && WEXITSTATUS(status) != 0) ++failed_;
    }
    return all_ended;
  }

  /// All that wrote a step wrote the same; and a survivor wrote all of them.
  int judge(bool ended) {
    if (!ended) complain("it did not end, or nobody caught up");
    const int64_t last = stage_.last_step.load();
    int64_t divisors = 0;
    for (int64_t step = 0; step <= last; ++step) {
      const StepEntry* first = nullptr;
      for (int process = 0; process < processes(); ++process) {
        const StepEntry& entry = stage_.entries[process][step];
        if (entry.hash.load() == 0) continue;
        if (first == nullptr) first = &entry;
        const std::string differs = difference(step, process, entry, *first);
        if (!differs.empty()) complain(differs);
      }
      if (first == nullptr) complain("nobody wrote step " + std::to_string(step));
      if (first != nullptr) divisors |= int64_t{1} << first->divisor.load();
    }
    const int replicas = options_.ranks / options_.shards;
    const int lost = options_.scenario == "edit" ? 2 : 1;
    const int64_t wanted = (int64_t{1} << replicas) | (int64_t{1} << (replicas - lost));
    if (options_.scenario != "edit" && (divisors & wanted) != wanted) {
      complain("the divisors are the bits " + std::to_string(divisors));
    }
    for (int process = 0; process < processes() && failed_ > 0; ++process) {
      if (stage_.message[process][0] == 0) continue;
      std::printf("  process %d in step %lld: %s\n", process,
                  static_cast<long long>(stage_.at_step[process].load()), stage_.message[process]);
    }
    std::printf("fault_tolerant %s, network %s, seed %llu, victim %d in step %lld of %lld: %s\n",
                options_.scenario.c_str(), name_of(options_.network),
                static_cast<unsigned long long>(options_.seed), cast_.victim,
                static_cast<long long>(stage_.died_in.load()), static_cast<long long>(last),
                failed_ == 0 ? "right" : "FAILED");
    return failed_ == 0 ? 0 : 1;
  }

  void complain(const std::string& what) {
    ++failed_;
    std::printf("  %s\n", what.c_str());
  }

  const SurvivalOptions& options_;
  SurvivalStage& stage_;
  float* state_;
  std::atomic<uint32_t>* ready_;
  const SurvivalCast cast_;
  std::vector<pid_t> pids_;
  int failed_ = 0;
};

void* shared_memory(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

int run(const SurvivalOptions& options) {
  size_t floats = 0;
  for (const int count : kCounts) floats += static_cast<size_t>(count);
  void* stage = shared_memory(sizeof(SurvivalStage));
  void* state = shared_memory(floats * static_cast<size_t>(options.shards) * sizeof(float));
  void* ready = shared_memory(sizeof(std::atomic<uint32_t>) * static_cast<size_t>(options.shards));
  if (stage == nullptr || state == nullptr || ready == nullptr) return 1;
  return SurvivalDirector(options, *new (stage) SurvivalStage(), static_cast<float*>(state),
                          static_cast<std::atomic<uint32_t>*>(ready))
      .run();
}

}  // namespace
}  // namespace tutti::kill_test

int main(int argc, char** argv) {
  using tutti::testing_support::into;
  tutti::kill_test::SurvivalOptions options;
  const bool understood =
      tutti::testing_support::read_options(argc, argv,
                                           {{"--network", into(options.network)},
                                            {"--scenario", into(options.scenario)},
                                            {"--seed", into(options.seed)},
                                            {"--ranks", into(options.ranks)},
                                            {"--shards", into(options.shards)},
                                            {"--steps", into(options.steps)}});
  const std::string& name = options.scenario;
  const bool is_known =
      name == "random" || name == "late" || name == "one_saw" || name == "commit" || name == "edit";
  const int dying = name == "edit" ? 2 : 1;
  const bool fits = options.shards >= 1 && options.ranks % options.shards == 0 &&
                    options.ranks / options.shards > dying &&
                    options.ranks <= tutti::kill_test::kMostRanks && options.steps < 2000;
  return understood && is_known && fits ? tutti::kill_test::run(options) : 2;
}
