// Pipelines that compute: training_systems 3.13 (e), gradients bit-equal to one process.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/generators.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::runtime {
namespace {

constexpr size_t kWidth = 16;
using Vector = std::vector<double>;

Vector weights_of(int stage) {
  Vector weights;
  for (size_t i = 0; i < kWidth; ++i)
    weights.push_back(1 + double((size_t(stage) * 5 + i) % 7) / 10);
  return weights;
}

Vector input_of(int micro_batch) {
  Vector x;
  for (size_t i = 0; i < kWidth; ++i) x.push_back(double((size_t(micro_batch) * 3 + i) % 11) / 9);
  return x;
}

/// Each stage multiplies by its weights; the loss is half the square of the last output. Gradients
/// of the weights, summed over micro-batches in their order.
std::vector<Vector> one_process(int stages, int micro_batches) {
  std::vector<Vector> gradients(size_t(stages), Vector(kWidth, 0));
  for (int m = 0; m < micro_batches; ++m) {
    std::vector<Vector> inputs{input_of(m)};
    for (int s = 0; s < stages; ++s) {
      Vector out = inputs.back();
      for (size_t i = 0; i < kWidth; ++i) out[i] *= weights_of(s)[i];
      inputs.push_back(out);
    }
    Vector slope = inputs.back();
    for (int s = stages - 1; s >= 0; --s) {
      for (size_t i = 0; i < kWidth; ++i) {
        gradients[size_t(s)][i] += slope[i] * inputs[size_t(s)][i];
        slope[i] *= weights_of(s)[i];
      }
    }
  }
  return gradients;
}

/// One rank's stages. All data between tasks is in the buffers that the timeline names, so one that
/// is used too early shows.
class StageWork {
 public:
  StageWork(const PipelineSpec& spec)
      : stages_(spec.ranks * spec.chunks),
        first_of_weights_(int64_t{spec.micro_batches} * stages_ * 2),
        splits_(spec.weights > Nanoseconds(0)) {}

  void compute(const TimelineTask& task) {
    if (task.item >= first_of_weights_) {
      return add(int((task.item - first_of_weights_) % stages_), memory(task.reads[0]),
                 memory(task.reads[1]));
    }
    const bool is_backward = task.item % 2 == 1;
    const int stage = int(task.item / 2 % stages_), micro_batch = int(task.item / 2 / stages_);
    const Vector weights = weights_of(stage);
    if (is_backward) {
      const Vector input = memory(task.reads[0]);
      Vector slope = task.reads.size() > 1 ? memory(task.reads[1]) : input;
      for (size_t i = 0; i < kWidth && task.reads.size() == 1; ++i) {
        slope[i] = input[i] * weights[i];  // the last stage's output
      }
      if (splits_) {
        memory(task.writes[0]) = slope;
      } else {
        add(stage, input, slope);
      }
      for (size_t i = 0; i < kWidth; ++i) slope[i] *= weights[i];
      const size_t sent = splits_ ? 1 : 0;
      if (task.writes.size() > sent) memory(task.writes[sent]) = slope;
    } else {
      Vector x = task.reads.empty() ? input_of(micro_batch) : memory(task.reads[0]);
      memory(task.writes[0]) = x;
      for (size_t i = 0; i < kWidth; ++i) x[i] *= weights[i];
      if (task.writes.size() > 1) memory(task.writes[1]) = x;
    }
  }

  Payload payload(const TimelineTask& task) {
    const bool sends = task.kind == TaskKind::kSend;
    Vector& buffer = memory(sends ? task.reads[0] : task.writes[0]);
    return {buffer.data(), buffer.data(), kWidth, tuttiFloat64, tuttiSum};
  }

  std::map<int, Vector> gradients;

 private:
  void add(int stage, const Vector& input, const Vector& slope) {
    Vector& gradient = gradients[stage];
    gradient.resize(kWidth, 0);
    for (size_t i = 0; i < kWidth; ++i) gradient[i] += slope[i] * input[i];
  }
  Vector& memory(int buffer) {
    const std::lock_guard lock(mutex_);
    Vector& values = memory_[buffer];
    values.resize(kWidth);
    return values;
  }

  int stages_;
  int64_t first_of_weights_;
  bool splits_;
  std::mutex mutex_;
  std::map<int, Vector> memory_;
};

TEST(RuntimePipelineRun, GradientsAreThoseOfOneProcessForEverySchedule) {
  for (const int ranks : {2, 3, 4}) {
    for (const int chunks : {1, 2}) {
      for (const int group : {0, ranks + 1, -1}) {  // -1: 0, with passes for weights
        if (chunks == 1 && group > 0) continue;
        PipelineSpec spec;
        if (group < 0) spec.weights = spec.backward / 2;
        spec.ranks = ranks;
        spec.chunks = chunks;
        spec.micro_batches = group > 0 ? 2 * group : 2 * ranks;
        spec.group = std::max(group, 0);
        spec.message = Bytes(kWidth * 8);
        SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(chunks) +
                     " chunks, group " + std::to_string(group));
        const auto expected = one_process(ranks * chunks, spec.micro_batches);
        run_ranks(ranks, [&](tuttiComm_t comm, int) {
          TimelineRunner runner(comm, pipeline(spec));
          StageWork work(spec);
          runner.run({[&](const TimelineTask& task) { work.compute(task); },
                      [&](const TimelineTask& task) { return work.payload(task); }});
          EXPECT_EQ(int(work.gradients.size()), chunks);
          for (const auto& [stage, gradient] : work.gradients) {
            EXPECT_EQ(gradient, expected[size_t(stage)]) << "stage " << stage;
          }
        });
      }
    }
  }
}

}  // namespace
}  // namespace tutti::runtime
