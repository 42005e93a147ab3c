// Data parallel training: every rank has the whole network and a share of each batch. A layer's
// gradients are all-reduced while the layers before it are still computed.
//
//   build/bin/examples/data_parallel --ranks 4
//
// Prints the loss of each step, in bits, too: they are the same for 1, 2, 4 and 8 ranks.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/network.h"
#include "examples/ranks.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/run_timeline.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

/// Bucket b holds the gradients of layer kLayerCount - 1 - b: the backward pass makes them in this
/// order. The loss goes along with the first bucket.
int layer_of(int bucket) { return kLayerCount - 1 - bucket; }

Timeline timeline_for(int ranks) {
  DdpSpec spec;
  spec.ranks = ranks;
  for (int b = 0; b < kLayerCount; ++b) {
    DdpBucket bucket;
    bucket.bytes = Bytes((kLayers[layer_of(b)].parameters() + (b == 0)) * 4);
    spec.buckets.push_back(bucket);
  }
  return ddp(spec);
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
    batches_.resize(static_cast<size_t>(kMicroBatches / ranks_));
    for (int layer = 0; layer < kLayerCount; ++layer) {
      parameters_.push_back(initial_parameters(layer));
    }
    buckets_.resize(kLayerCount);
  }

  float train(TimelineRunner& runner, int step) {
    step_ = step;
    runner.run({[this](const TimelineTask& task) { compute(task); },
                [this](const TimelineTask& task) { return gradients_of(task); }});
    return loss_;
  }

 private:
  void compute(const TimelineTask& task) {
    if (task.name == "forward") {
      for (size_t i = 0; i < batches_.size(); ++i) {
        begin(batches_[i], step_, rank_ * static_cast<int>(batches_.size()) + static_cast<int>(i));
        for (int layer = 0; layer < kLayerCount; ++layer) {
          forward(batches_[i], layer, parameters_[static_cast<size_t>(layer)].data());
        }
        measure(batches_[i]);
      }
    } else if (task.name == "step") {
      for (int b = 0; b < kLayerCount; ++b) {
        Values& parameters = parameters_[static_cast<size_t>(layer_of(b))];
        step_parameters(parameters.data(), buckets_[static_cast<size_t>(b)].data(),
                        parameters.size());
      }
      loss_ = buckets_[0].back() / (kMicroBatches * kSamples);
    } else {
      make_bucket(std::stoi(task.name.substr(1)));  // "B0", "B1" ...
    }
  }

  void make_bucket(int b) {
    const int layer = layer_of(b);
    for (MicroBatch& batch : batches_) {
      backward(batch, layer, parameters_[static_cast<size_t>(layer)].data());
      if (b == 0) batch.gradients[layer].push_back(batch.loss);
    }
    fold_tree(static_cast<int>(batches_.size()), [&](int to, int from) {
      Values& sum = batches_[static_cast<size_t>(to)].gradients[layer];
      const Values& other = batches_[static_cast<size_t>(from)].gradients[layer];
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    });
    buckets_[static_cast<size_t>(b)] = batches_[0].gradients[layer];
  }

  Payload gradients_of(const TimelineTask& task) {
    Values& bucket = buckets_[static_cast<size_t>(task.tag)];
    return {bucket.data(), bucket.data(), bucket.size(), tuttiFloat32, tuttiSum};
  }

  int rank_ = 0, ranks_ = 1;
  int step_ = 0;
  float loss_ = 0;
  std::vector<MicroBatch> batches_;
  std::vector<Values> parameters_;
  std::vector<Values> buckets_;
};

void train(tuttiComm_t comm) {
  int rank = 0, ranks = 0;
  expect(tuttiCommUserRank(comm, &rank), "tuttiCommUserRank");
  expect(tuttiCommCount(comm, &ranks), "tuttiCommCount");
  Trainer trainer(comm);
  TimelineRunner runner(comm, timeline_for(ranks), {.deterministic = true});
  for (int step = 0; step < kSteps; ++step) {
    const float loss = trainer.train(runner, step);
    if (rank == 0) std::printf("step %2d  loss %.6f  %a\n", step, loss, loss);
  }
}

}  // namespace

int main(int argc, char** argv) { return run_example(argc, argv, train); }
