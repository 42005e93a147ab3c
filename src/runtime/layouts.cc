#include "tutti/runtime/layouts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {
namespace {

constexpr int64_t kStateBytes = 16;  // of a parameter: weights, gradients, Adam in mixed precision
constexpr int64_t kElement = 2;      // bytes of activations and gradients on the wire

void check(const ModelShape& model, const TrainingRun& run) {
  for (const int64_t number :
       {model.layers, model.hidden, model.heads, model.length, model.vocabulary, run.batch}) {
    require(number >= 1, "a number of the model or the batch is ", number, "; give 1 or more");
  }
  require(model.hidden % model.heads == 0, "the hidden size ", model.hidden,
          " is not a multiple of ", model.heads, " heads");
  require(std::isfinite(run.flops_per_ns) && run.flops_per_ns > 0,
          "the peak rate must be positive");
  require(run.efficiency > 0 && run.efficiency <= 1, "the efficiency ", run.efficiency,
          " is outside of (0, 1]");
  require(run.memory > Bytes(0), "the memory of a rank must be positive");
  checked_product(model.parameters(), kStateBytes, "the bytes of the model's state");
  const int64_t tokens = checked_product(run.batch, model.length, "the tokens of a batch");
  checked_product(checked_product(tokens, model.hidden, "the activations of a batch"), kElement,
                  "the bytes of a batch's activations");
  checked_product(model.length, model.heads, "length * heads");
}

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> found;
  for (int64_t d = 1; d <= number; ++d) {
    if (number % d == 0) found.push_back(d);
  }
  return found;
}

class LayoutPricer {
 public:
  LayoutPricer(const ModelShape& model, const TrainingRun& run, const Machine& machine)
      : model_(model), run_(run), machine_(machine) {}

  Bytes memory(const LayoutChoice& c) const {
    const double state =
        static_cast<double>(model_.parameters() * kStateBytes) / (c.tensor * c.pipeline);
    const double tokens = static_cast<double>(c.micro_batch * model_.length);
    const double wide = tokens * static_cast<double>(model_.hidden);
    double layer = 34 * wide;
    if (!model_.fused_attention) {
      layer += 5 * tokens * static_cast<double>(model_.length * model_.heads);
    }
    const int64_t layers = model_.layers / c.pipeline;
    // Checkpoints keep a layer's input, and one layer's activations while it is computed again.
    const double kept = c.checkpointed ? 2 * wide * static_cast<double>(layers) + layer / c.tensor
                                       : layer / c.tensor * static_cast<double>(layers);
    const int64_t live =
        std::min<int64_t>(c.pipeline, c.micro_batches);  // of the first stage, 1F1B
    return Bytes(checked_round(state + kept * static_cast<double>(live), "the memory of a rank"));
  }

  Nanoseconds step(const LayoutChoice& c) const {
    const double tokens = static_cast<double>(c.micro_batch * model_.length);
    const double again = c.checkpointed ? 4.0 / 3 : 1;
    const double computing = tokens * model_.flops_per_token() * again / (c.tensor * c.pipeline) /
                             (run_.flops_per_ns * run_.efficiency);
    const int64_t wide = c.micro_batch * model_.length * model_.hidden * kElement;
    const std::string_view what = "the time of a step";
    const auto sum = [&](Nanoseconds a, Nanoseconds b) {
      return Nanoseconds(checked_sum(a.value, b.value, what));
    };
    const auto times = [&](Nanoseconds a, int64_t count) {
      return Nanoseconds(checked_product(a.value, count, what));
    };
    Nanoseconds one(checked_round(computing, what));
    if (c.tensor > 1) {  // two all_reduces each way in a layer
      one = sum(one, times(collective_time(machine_, group(1, c.tensor), TaskKind::kAllReduce,
                                           Bytes(wide)),
                           4 * (model_.layers / c.pipeline)));
    }
    if (c.pipeline > 1) {
      const RankSet border({0, c.tensor});
      one = sum(one, times(message_time(machine_.link_of(border), Bytes(wide / c.tensor)), 2));
    }
    Nanoseconds whole = times(one, c.micro_batches + c.pipeline - 1);
    if (c.data > 1) {
      const Bytes gradients(model_.parameters() * kElement / (c.tensor * c.pipeline));
      const Nanoseconds reduced = collective_time(machine_, group(c.tensor * c.pipeline, c.data),
                                                  TaskKind::kAllReduce, gradients);
      // It hides behind the last micro-batch's backward pass, two thirds of its time.
      const Nanoseconds hidden = one / 3 * 2 + Nanoseconds(one.value % 3 * 2 / 3);
      whole = sum(whole, std::max(Nanoseconds(0), reduced - hidden));
    }
    return whole;
  }

 private:
  static RankSet group(int stride, int size) {
    std::vector<int> ranks;
    for (int i = 0; i < size; ++i) ranks.push_back(i * stride);
    return RankSet(std::move(ranks));
  }

  const ModelShape& model_;
  const TrainingRun& run_;
  const Machine& machine_;
};

/// "" if the model and the batch divide.
std::string why_not(const ModelShape& model, const TrainingRun& run, const LayoutChoice& c) {
  if (model.heads % c.tensor != 0) {
    return words(c.tensor, " tensor-parallel ranks do not divide ", model.heads, " heads");
  }
  if (model.layers % c.pipeline != 0) {
    return words(c.pipeline, " stages do not divide ", model.layers, " layers");
  }
  if (run.batch % c.data != 0 || run.batch / c.data % c.micro_batch != 0) {
    return words(c.data, " replicas with micro-batches of ", c.micro_batch,
                 " do not divide a batch of ", run.batch);
  }
  return "";
}

}  // namespace

int64_t ModelShape::parameters() const {
  const std::string_view what = "the number of parameters";
  const int64_t square = checked_product(hidden, hidden, what);
  const int64_t of_layers = checked_product(checked_product(12, layers, what), square, what);
  return checked_sum(of_layers, checked_product(vocabulary, hidden, what), what);
}

LayoutSearch search_layouts(const ModelShape& model, const TrainingRun& run,
                            const Machine& machine) {
  check(model, run);
  check_ranks(machine.ranks());
  const LayoutPricer pricer(model, run, machine);
  LayoutSearch search;
  std::map<std::string, int> reasons;
  const auto consider = [&](LayoutChoice c) {
    ++search.candidates;
    std::string reason = why_not(model, run, c);
    if (reason.empty()) {
      c.micro_batches = run.batch / (c.data * c.micro_batch);
      c.memory = pricer.memory(c);
      if (c.memory > run.memory) reason = words("memory beyond ", run.memory.value, " bytes");
    }
    if (!reason.empty()) {
      ++reasons[reason];
      return;
    }
    c.step = pricer.step(c);
    c.bubble = static_cast<double>(c.pipeline - 1) / static_cast<double>(c.micro_batches);
    const double tokens = static_cast<double>(run.batch * model.length);
    c.mfu = tokens * model.flops_per_token() /
            static_cast<double>(std::max<int64_t>(1, c.step.value)) /
            (run.flops_per_ns * machine.ranks());
    search.ranked.push_back(c);
  };
  for (const int64_t tensor : divisors(machine.ranks())) {
    for (const int64_t pipeline : divisors(machine.ranks() / tensor)) {
      for (int64_t micro = 1; micro <= run.batch; micro *= 2) {
        for (const bool checkpointed : {false, true}) {
          LayoutChoice c;
          c.tensor = static_cast<int>(tensor);
          c.pipeline = static_cast<int>(pipeline);
          c.data = static_cast<int>(machine.ranks() / tensor / pipeline);
          c.micro_batch = micro;
          c.checkpointed = checkpointed;
          consider(c);
        }
      }
    }
  }
  for (const auto& [reason, count] : reasons) {
    search.refused.push_back(
        words(count, " of ", search.candidates, ": ", std::string_view(reason)));
  }
  if (search.ranked.empty()) {
    std::string all;
    for (const std::string& reason : search.refused) all += "\n  " + reason;
    infeasible("no layout of ", machine.ranks(), " ranks is possible:", std::string_view(all));
  }
  std::sort(search.ranked.begin(), search.ranked.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.step, a.micro_batch, a.checkpointed, a.tensor, a.pipeline) <
           std::tuple(b.step, b.micro_batch, b.checkpointed, b.tensor, b.pipeline);
  });
  return search;
}

double model_flops_utilization(const ModelShape& model, double tokens_per_second,
                               double peak_flops_per_second) {
  require(std::isfinite(tokens_per_second) && tokens_per_second >= 0, "the rate of tokens is ",
          tokens_per_second);
  require(std::isfinite(peak_flops_per_second) && peak_flops_per_second > 0,
          "the peak rate must be positive");
  return tokens_per_second * model.flops_per_token() / peak_flops_per_second;
}

}  // namespace tutti::runtime
