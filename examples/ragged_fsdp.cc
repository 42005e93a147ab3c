// Fully sharded training with ragged shares: between uses a rank holds a share of each layer's
// parameters, cut at whole rows. Layers are gathered ahead of their use into as many buffers as are
// in use at once, and gradients are reduce-scattered behind it.
//
//   build/bin/examples/ragged_fsdp --ranks 4
//
// Trains as data_parallel does, to the same bits.
#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/network.h"
#include "examples/ranks.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/ragged_fsdp.h"
#include "tutti/runtime/run_timeline.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

size_t at(int64_t index) { return static_cast<size_t>(index); }

/// A layer's weights are cut between rows only, its biases anywhere; the loss goes along with the
/// last layer. Shares of all layers have one size, so that any layer fits any buffer.
std::vector<BucketPlan> plans_for(int ranks) {
  std::vector<BucketPlan> plans;
  int64_t largest = 0;
  for (int layer = 0; layer < kLayerCount; ++layer) {
    const LayerShape& shape = kLayers[layer];
    const BucketTensor tensors[] = {{shape.weights(), shape.inputs}, {shape.outputs, 1}, {1, 1}};
    plans.push_back(plan_bucket(tensors, ranks, 1));
    largest = std::max(largest, plans.back().share);
  }
  for (int layer = 0; layer < kLayerCount; ++layer) {
    plans[at(layer)] = plan_bucket(plans[at(layer)].tensors, ranks, largest);
  }
  return plans;
}

class Trainer {
 public:
  explicit Trainer(tuttiComm_t comm) {
    expect(tuttiCommUserRank(comm, &rank_), "tuttiCommUserRank");
    expect(tuttiCommCount(comm, &ranks_), "tuttiCommCount");
    if (kMicroBatches % ranks_ != 0) {
      throw std::runtime_error(
          "run it with 1, 2, 4 or 8 ranks: each has equally many micro-batches");
    }
    batches_.resize(at(kMicroBatches / ranks_));
    plans_ = plans_for(ranks_);
    share_ = plans_[0].share;
    for (int layer = 0; layer < kLayerCount; ++layer) {
      const Values whole = spread(layer, initial_parameters(layer));
      shares_.emplace_back(whole.begin() + rank_ * share_, whole.begin() + (rank_ + 1) * share_);
      gradient_shares_.emplace_back(at(share_));
    }
  }

  Timeline timeline() const {
    FsdpSpec spec;
    spec.ranks = ranks_;
    spec.layers = kLayerCount;
    spec.layer = Bytes(share_ * ranks_ * 4);
    return fsdp(spec);
  }

  void train(TimelineRunner& runner, int step) {
    step_ = step;
    runner.run({[this](const TimelineTask& task) { compute(task); },
                [this](const TimelineTask& task) { return payload_of(task); }});
    for (int layer = 0; layer < kLayerCount; ++layer) {
      step_parameters(shares_[at(layer)].data(), gradient_shares_[at(layer)].data(), at(share_));
    }
  }

  /// The loss lies with the last layer's gradients, on one rank; all others give 0.
  float own_loss() const {
    const int64_t place = plans_.back().offsets[2] - rank_ * share_;
    return place >= 0 && place < share_ ? gradient_shares_.back()[at(place)] : 0.0f;
  }

 private:
  /// Parameters, or their gradients with the loss behind them, at their places in a whole layer.
  Values spread(int layer, const Values& values) const {
    const BucketPlan& plan = plans_[at(layer)];
    Values whole(at(share_ * ranks_), 0.0f);
    auto from = values.begin();
    for (size_t t = 0; t < plan.tensors.size() && from != values.end(); ++t) {
      std::copy_n(from, plan.tensors[t].elements, whole.begin() + plan.offsets[t]);
      from += plan.tensors[t].elements;
    }
    return whole;
  }

  /// The parameters of a layer as the network wants them: the tensors one behind the other.
  Values packed(int layer, const Values& whole) const {
    Values values;
    for (int t = 0; t < 2; ++t) {
      const auto from = whole.begin() + plans_[at(layer)].offsets[at(t)];
      values.insert(values.end(), from, from + plans_[at(layer)].tensors[at(t)].elements);
    }
    return values;
  }

  /// The memory for a number of the timeline's buffers. Tracks ask for it at the same time.
  Values& memory(int buffer) {
    const std::lock_guard lock(mutex_);
    Values& values = memory_[buffer];
    values.resize(at(share_ * ranks_));
    return values;
  }

  void compute(const TimelineTask& task) {
    const int layer = std::stoi(task.name.substr(1));  // "F0", "B3"
    const Values parameters = packed(layer, memory(task.reads.back()));
    const bool is_forward = task.name[0] == 'F';
    for (size_t i = 0; i < batches_.size(); ++i) {
      MicroBatch& batch = batches_[i];
      if (is_forward) {
        if (layer == 0)
          begin(batch, step_, rank_ * static_cast<int>(batches_.size()) + static_cast<int>(i));
        forward(batch, layer, parameters.data());
      } else {
        if (layer == kLayerCount - 1) measure(batch);
        backward(batch, layer, parameters.data());
        batch.gradients[layer].push_back(layer == kLayerCount - 1 ? batch.loss : 0.0f);
      }
    }
    if (is_forward) return;
    fold_tree(static_cast<int>(batches_.size()), [&](int to, int from) {
      Values& sum = batches_[at(to)].gradients[layer];
      const Values& other = batches_[at(from)].gradients[layer];
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    });
    memory(task.writes.front()) = spread(layer, batches_[0].gradients[layer]);
  }

  Payload payload_of(const TimelineTask& task) {
    const int layer = task.tag % kLayerCount;
    if (task.kind == TaskKind::kAllGather) {
      return {shares_[at(layer)].data(), memory(task.writes.front()).data(), at(share_),
              tuttiFloat32, tuttiSum};
    }
    return {memory(task.reads.front()).data(), gradient_shares_[at(layer)].data(), at(share_),
            tuttiFloat32, tuttiSum};
  }

  int rank_ = 0, ranks_ = 1;
  int step_ = 0;
  int64_t share_ = 0;
  std::vector<MicroBatch> batches_;
  std::vector<BucketPlan> plans_;
  std::vector<Values> shares_;  // of this rank, layer by layer
  std::vector<Values> gradient_shares_;
  std::mutex mutex_;
  std::map<int, Values> memory_;
};

void train(tuttiComm_t comm) {
  int rank = 0;
  expect(tuttiCommUserRank(comm, &rank), "tuttiCommUserRank");
  Trainer trainer(comm);
  TimelineRunner runner(comm, trainer.timeline(), {.deterministic = true});
  for (int step = 0; step < kSteps; ++step) {
    trainer.train(runner, step);
    float own = trainer.own_loss(), loss = 0;
    expect(tuttiReduce(&own, &loss, 1, tuttiFloat32, tuttiSum, 0, comm, tuttiBlocking()),
           "tuttiReduce");
    loss /= kMicroBatches * kSamples;
    if (rank == 0) std::printf("step %2d  loss %.6f  %a\n", step, loss, loss);
  }
}

}  // namespace

int main(int argc, char** argv) { return run_example(argc, argv, train); }
