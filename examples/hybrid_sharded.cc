// Hybrid sharded training (HSDP) that survives: two replicas of two ranks. Each rank holds half of
// its replica's parameters; gradients are reduce-scattered within a replica and averaged over the
// replicas. In step 20 a rank is killed. Its mate leaves, and the other replica goes on.
//
//   build/bin/examples/hybrid_sharded
//
// Prints the loss of each step, over how many replicas it is averaged, and the epoch.
#include <signal.h>

#include <cstdio>
#include <string>
#include <vector>

#include "examples/network.h"
#include "examples/ranks.h"
#include "tutti/runtime/fault_tolerant.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

constexpr int kShards = 2, kReplicas = 2;
constexpr int kKilledRank = 2;  // the first of replica 1
constexpr int kKilledIn = 20;
constexpr int kOwnBatches = kMicroBatches / (kShards * kReplicas);

int all_parameters() {
  int all = 0;
  for (const LayerShape& shape : kLayers.shapes) all += shape.parameters();
  return all;
}

/// The parameters of all layers one behind the other, then the loss, cut into equal shards.
class Trainer {
 public:
  explicit Trainer(tuttiComm_t comm) : reduce_(comm, spec()) {
    expect(tuttiCommUserRank(comm, &rank_), "tuttiCommUserRank");
    expect(tuttiCommSplit(comm, rank_ / kShards, rank_, &within_, nullptr), "tuttiCommSplit");
    half_ = static_cast<size_t>((all_parameters() + kShards) / kShards);
    parameters_.resize(half_ * kShards);
    gradients_.resize(half_ * kShards);
    float* place = parameters_.data();
    for (int layer = 0; layer < kLayerCount; ++layer) {
      for (const float value : initial_parameters(layer)) *place++ = value;
    }
  }
  ~Trainer() { tuttiCommAbort(within_); }

  void train(int step) {
    compute(step);
    if (rank_ == kKilledRank && step == kKilledIn) raise(SIGKILL);
    float* own = gradients_.data() + half_ * shard();
    expect(tuttiReduceScatter(gradients_.data(), own, half_, tuttiFloat32, tuttiSum, within_,
                              tuttiBlocking()),
           "a rank of this replica is lost, which leaves: tuttiReduceScatter");
    reduce_.all_reduce(own, own, static_cast<int64_t>(half_), tuttiFloat32, tuttiAvg);
    const StepReport report = reduce_.step_commit();
    // From here on the step counts, and parameters may change. The gradients are sums over the
    // micro-batches of a replica, of which there are as many in each.
    float* shard_of = parameters_.data() + half_ * shard();
    for (size_t i = 0; i < half_; ++i) {
      shard_of[i] -= kRate * own[i] / static_cast<float>(kMicroBatches / kReplicas * kSamples);
    }
    tell(report, own[half_ - 1]);
    expect(
        tuttiAllGather(shard_of, parameters_.data(), half_, tuttiFloat32, within_, tuttiBlocking()),
        "tuttiAllGather");
  }

 private:
  static FaultTolerantSpec spec() {
    FaultTolerantSpec spec;
    spec.group.shards = kShards;
    spec.deterministic = true;
    return spec;
  }
  size_t shard() const { return static_cast<size_t>(rank_ % kShards); }

  void compute(int step) {
    gradients_.assign(gradients_.size(), 0);
    for (int i = 0; i < kOwnBatches; ++i) {
      MicroBatch batch;
      begin(batch, step, rank_ * kOwnBatches + i);
      std::vector<const float*> layers;
      const float* place = parameters_.data();
      for (const LayerShape& shape : kLayers.shapes) {
        layers.push_back(place);
        place += shape.parameters();
      }
      for (int layer = 0; layer < kLayerCount; ++layer) {
        forward(batch, layer, layers[static_cast<size_t>(layer)]);
      }
      measure(batch);
      for (int layer = kLayerCount - 1; layer >= 0; --layer) {
        backward(batch, layer, layers[static_cast<size_t>(layer)]);
      }
      float* sum = gradients_.data();
      for (const Values& gradient : batch.gradients) {
        for (const float value : gradient) *sum++ += value;
      }
      gradients_.back() += batch.loss;
    }
  }

  /// The last rank of the first replica that lives has the loss.
  void tell(const StepReport& report, float loss) const {
    const bool tells = shard() == kShards - 1 && report.rank == kShards - 1;
    if (!tells) return;
    std::printf("step %2d  loss %.6f  replicas %d  epoch %u\n", static_cast<int>(report.step),
                loss / (kMicroBatches / kReplicas * kSamples), static_cast<int>(report.divisor),
                report.epoch);
  }

  FaultTolerantAllReduce reduce_;
  tuttiComm_t within_ = nullptr;
  int rank_ = 0;
  size_t half_ = 0;
  Values parameters_, gradients_;
};

void train(tuttiComm_t comm) {
  Trainer trainer(comm);
  for (int step = 0; step < kSteps; ++step) trainer.train(step);
}

}  // namespace

int main() { return run_forked(kShards * kReplicas, train, {kKilledRank, kKilledRank + 1}); }
