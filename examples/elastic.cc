// Elastic training: four ranks, of which one is killed in step 15; three go on, and from step 30 on
// a newcomer takes the free place. Every step has the same micro-batches, whoever does them, so the
// losses are those of a training that nobody disturbs, to the bit.
//
//   build/bin/examples/elastic [--steady]     --steady: nobody is killed
//
// Prints the loss of each step, in bits, too, and the number of ranks; then what moved.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/network.h"
#include "examples/ranks.h"
#include "tutti/runtime/elastic_plan.h"
#include "tutti/runtime/ordered_sum.h"
#include "tutti/runtime/random_stream.h"
#include "tutti/runtime/surviving_state.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

constexpr int kRanks = 4;
constexpr int kKilledRank = 1, kKilledIn = 15, kJoinsFrom = 30;
constexpr float kMomentum = 0.5f;
constexpr uint64_t kSeed = 7;
constexpr float kDropout = 0.1f;

/// Words of the processes to each other: as a scheduler would pass them on.
struct Platform {
  Meeting meeting;
  tuttiUniqueId group_id;
  std::atomic<int> wants_newcomer;
  std::atomic<int> newcomer_waits;
};

/// An element of the state. Its owner updates both; everybody needs the parameter.
struct Weight {
  float parameter;
  float momentum;
};

Values all_initial_parameters() {
  Values all;
  for (int layer = 0; layer < kLayerCount; ++layer) {
    for (const float value : initial_parameters(layer)) all.push_back(value);
  }
  return all;
}

class ElasticTrainer {
 public:
  ElasticTrainer(tuttiComm_t comm, bool joins, bool may_die)
      : initial_(all_initial_parameters()),
        group_(comm, group_spec(joins)),
        state_(group_, state_spec()),
        sum_(std::ssize(initial_) + 1, kMicroBatches, tuttiFloat32),
        weights_(initial_.size()),
        total_(initial_.size() + 1),
        may_die_(may_die) {
    // It has the state as soon as the first step begins.
    if (joins) group_.caught_up();
  }

  StepGroup& group() { return group_; }
  const StateCounters& moved() const { return state_.counters(); }

  void train() {
    const StepReport report = group_.run([this] { work(); });
    state_.committed();
    if (report.rank != 0) return;
    const float loss = total_.back() / (kMicroBatches * kSamples);
    std::printf("step %2d  loss %.6f  %a  ranks %zu\n", static_cast<int>(report.step), loss, loss,
                report.members.size());
  }

 private:
  static StepGroupSpec group_spec(bool joins) {
    StepGroupSpec spec;
    spec.joins = joins;
    return spec;
  }

  SurvivingStateSpec state_spec() const {
    SurvivingStateSpec spec;
    spec.elements = std::ssize(initial_);
    spec.element = Bytes(sizeof(Weight));
    spec.stripe = 64;
    spec.initial = [this](int64_t begin, int64_t end, std::byte* elements) {
      for (int64_t i = begin; i < end; ++i, elements += sizeof(Weight)) {
        const Weight weight{initial_[static_cast<size_t>(i)], 0};
        std::memcpy(elements, &weight, sizeof weight);
      }
    };
    return spec;
  }

  /// All of a step before its commit; it may run again, with other ranks.
  void work() {
    state_.begin();
    sum_.clear();
    state_.gather(std::as_writable_bytes(std::span(weights_)));
    const std::vector<int64_t> speeds(group_.members().size(), 1);
    const std::vector<int64_t> counts = split_micro_batches(kMicroBatches, speeds);
    int64_t number = 0;
    for (int rank = 0; rank < group_.rank(); ++rank) number += counts[static_cast<size_t>(rank)];
    const int64_t end = number + counts[static_cast<size_t>(group_.rank())];
    for (; number < end; ++number) {
      add_gradient(static_cast<int>(number));
      if (may_die_ && group_.step() == kKilledIn) raise(SIGKILL);
    }
    sum_.finish(group_.comm(), total_.data());
    step_shards();
    state_.end();
  }

  void add_gradient(int number) {
    const auto step = static_cast<int>(group_.step());
    MicroBatch batch;
    begin(batch, step, number);
    Values mask(batch.activations[0].size());
    RandomStream(kSeed, step, number, 0).dropout_mask(kDropout, mask);
    for (size_t i = 0; i < mask.size(); ++i) batch.activations[0][i] *= mask[i];
    std::vector<Values> parameters(kLayerCount);
    size_t from = 0;
    for (int layer = 0; layer < kLayerCount; ++layer) {
      Values& own = parameters[static_cast<size_t>(layer)];
      for (int i = 0; i < kLayers[layer].parameters(); ++i) {
        own.push_back(weights_[from++].parameter);
      }
      forward(batch, layer, own.data());
    }
    measure(batch);
    Values gradient;
    for (int layer = kLayerCount - 1; layer >= 0; --layer) {
      backward(batch, layer, parameters[static_cast<size_t>(layer)].data());
    }
    for (const Values& of_layer : batch.gradients) {
      gradient.insert(gradient.end(), of_layer.begin(), of_layer.end());
    }
    gradient.push_back(batch.loss);
    sum_.add(number, gradient.data());
  }

  void step_shards() {
    std::byte* place = state_.local().data();
    for (const Shard& shard : state_.sharding().shards) {
      if (shard.rank != group_.rank()) continue;
      for (int64_t i = shard.begin; i < shard.begin + shard.length; ++i, place += sizeof(Weight)) {
        Weight weight{};
        std::memcpy(&weight, place, sizeof weight);
        const float slope = total_[static_cast<size_t>(i)] / (kMicroBatches * kSamples);
        weight.momentum = kMomentum * weight.momentum + slope;
        weight.parameter -= kRate * weight.momentum;
        std::memcpy(place, &weight, sizeof weight);
      }
    }
  }

  const Values initial_;
  StepGroup group_;
  SurvivingState state_;
  OrderedSum sum_;
  std::vector<Weight> weights_;
  Values total_;
  bool may_die_;
};

/// The first rank speaks to the platform.
void mind_newcomers(ElasticTrainer& trainer, Platform& platform) {
  const bool is_short = trainer.group().members().size() < kRanks;
  if (trainer.group().rank() != 0 || !is_short || trainer.group().step() < kJoinsFrom) return;
  platform.wants_newcomer = 1;
  if (platform.newcomer_waits != 0) trainer.group().expect_newcomers(1);
}

void train_all(tuttiComm_t comm, Platform& platform, bool joins, bool may_die) {
  ElasticTrainer trainer(comm, joins, may_die);
  while (trainer.group().step() < kSteps) {
    mind_newcomers(trainer, platform);
    // Steps are short here: the newcomer is given the time to start.
    while (trainer.group().step() == kSteps - 15 && platform.wants_newcomer != 0 &&
           platform.newcomer_waits == 0) {
      usleep(1000);
    }
    trainer.train();
  }
  const StateCounters& moved = trainer.moved();
  std::fprintf(stderr, "rank %d: moved %d times, %d bytes to it, %d of them from copies\n",
               trainer.group().rank(), static_cast<int>(moved.moves),
               static_cast<int>(moved.moved.value), static_cast<int>(moved.from_copies.value));
}

int start_rank(Platform& platform, int rank, bool steady) {
  return run_rank(
      [&] {
        const tuttiComm_t comm = meet(platform.meeting, rank, kRanks);
        if (rank == 0) expect(tuttiCommGetUniqueId(comm, &platform.group_id), "the group's id");
        return comm;
      },
      [&](tuttiComm_t comm) { train_all(comm, platform, false, rank == kKilledRank && !steady); });
}

int start_newcomer(Platform& platform) {
  while (platform.wants_newcomer == 0) {
    if (platform.wants_newcomer < 0 || getppid() == 1) return 0;
    usleep(1000);
  }
  return run_rank(
      [&] {
        tuttiComm_t comm = nullptr;
        platform.newcomer_waits = 1;
        expect(tuttiCommJoin(&comm, &platform.group_id, nullptr), "tuttiCommJoin");
        return comm;
      },
      [&](tuttiComm_t comm) { train_all(comm, platform, true, false); });
}

}  // namespace

int main(int argc, char** argv) {
  const bool steady = argc == 2 && std::string(argv[1]) == "--steady";
  if (argc > 1 && !steady) return std::fprintf(stderr, "usage: %s [--steady]\n", argv[0]), 2;
  void* shared =
      mmap(nullptr, sizeof(Platform), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return std::perror("mmap"), 1;
  auto* platform = new (shared) Platform{};
  std::vector<pid_t> children;
  for (int rank = 0; rank < (steady ? kRanks : kRanks + 1); ++rank) {
    const pid_t child = fork();
    if (child < 0) return std::perror("fork"), 1;
    if (child == 0) {
      const int status =
          rank < kRanks ? start_rank(*platform, rank, steady) : start_newcomer(*platform);
      std::fflush(nullptr);
      _exit(status);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (size_t rank = 0; rank < children.size(); ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    if (static_cast<int>(rank) != kKilledRank || steady) failed |= status;
  }
  return failed != 0;
}
