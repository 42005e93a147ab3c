// Two sites with a slow link between them train one network, five ways: gradients averaged in every
// step, the same with messages that are encoded, DiLoCo, Streaming DiLoCo and SparseLoCo. Prints
// the loss over the seconds it took and the bytes that crossed the link.
//
//   build/bin/examples/two_sites --ranks 4
//   build/bin/examples/two_sites --width 512 --steps 240 --rate 0.05 --wire wan:int8_block
//
// Without --ranks it runs under a launcher. --wire says which level of the job is the slow one, and
// its codec; without it the second way is left out. perf/sites/train_sites.py makes two sites.
//
// Within a site ranks average gradients in every step. Of what crosses the link each rank has a
// share of the parameters, and exchanges it with the rank of the same place in the other site.
// While it trains, no rank asks another one for its loss: that would be an exchange in every step.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/network.h"
#include "examples/ranks.h"
#include "tutti/codecs.h"
#include "tutti/runtime/communicators.h"
#include "tutti/runtime/outer/diloco.h"
#include "tutti/runtime/outer/sparse_loco.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

constexpr int kSites = 2;
constexpr int64_t kPeriod = 20;
constexpr float kMomentum = 0.9f;  // of the inner steps

struct Settings {
  int ranks = 0;  // 0: a launcher says
  int width = 64;
  int steps = 240;
  int shown = 60;  // steps between two lines
  float rate = kRate / 10;
  std::string wire;  // of tuttiOptions_t; "": the way that encodes is left out
};

/// The whole network, one layer behind the other.
int64_t parameters_before(const Layers& layers, int layer) {
  int64_t count = 0;
  for (int l = 0; l < layer; ++l) count += layers[l].parameters();
  return count;
}

/// A rank's place: its site, the ranks of it, and its partner at the other one.
class Place {
 public:
  Place(tuttiComm_t comm, int64_t parameters)
      : comms_(comm), ranks_(comms_.ranks()), rank_(comms_.rank()) {
    if (ranks_ % kSites != 0) throw std::runtime_error("two sites need 2, 4 or 8 ranks");
    const Mesh mesh({{"place", ranks_ / kSites}, {"site", kSites}});
    site_ = comms_.of(mesh, std::vector<std::string>{"place"});
    across_ = comms_.of(mesh, std::vector<std::string>{"site"});
    int place = 0;
    expect(tuttiCommUserRank(site_, &place), "tuttiCommUserRank");
    const auto whole = static_cast<size_t>(parameters);
    const auto places = static_cast<size_t>(ranks_ / kSites);
    for (size_t p = 0; p < places; ++p) {
      counts_.push_back(whole / places + (p < whole % places));
      if (p < static_cast<size_t>(place)) begin_ += counts_.back();
    }
    count_ = counts_[static_cast<size_t>(place)];
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  tuttiComm_t site() const { return site_; }
  tuttiComm_t across() const { return across_; }
  std::span<float> share(Values& parameters) const {
    return std::span(parameters).subspan(begin_, count_);
  }

  /// The shares of all ranks of this site, on each of them.
  void gather(Values& parameters) const {
    expect(tuttiAllGatherV(parameters.data() + begin_, count_, parameters.data(), counts_.data(),
                           nullptr, tuttiFloat32, site_, tuttiBlocking()),
           "tuttiAllGatherV");
  }

 private:
  Communicators comms_;
  int ranks_;
  int rank_;
  tuttiComm_t site_ = nullptr;
  tuttiComm_t across_ = nullptr;
  std::vector<size_t> counts_;  // of each rank's share in a site
  size_t begin_ = 0, count_ = 0;
};

/// Forward and backward of this rank's micro-batches: fills `sum`, returns the loss.
float add_gradients(const Place& place, const Layers& layers, const Values& parameters, int step,
                    Values& sum) {
  float loss = 0;
  sum.assign(parameters.size(), 0.0f);
  const int each = kMicroBatches / place.ranks();
  for (int m = 0; m < each; ++m) {
    MicroBatch batch;
    begin(batch, step, place.rank() * each + m);
    for (int layer = 0; layer < kLayerCount; ++layer) {
      forward(batch, layer, parameters.data() + parameters_before(layers, layer), layers);
    }
    measure(batch);
    for (int layer = kLayerCount - 1; layer >= 0; --layer) {
      const auto first = static_cast<size_t>(parameters_before(layers, layer));
      backward(batch, layer, parameters.data() + first, layers);
      for (size_t i = 0; i < batch.gradients[layer].size(); ++i) {
        sum[first + i] += batch.gradients[layer][i];
      }
    }
    loss += batch.loss;
  }
  return loss;
}

void sum_over(tuttiComm_t comm, std::span<float> values) {
  expect(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiSum, comm,
                        tuttiBlocking()),
         "tuttiAllReduce");
}

/// Of so many values on the slow link, by "LEVEL:CODEC" or, if that is empty, as they are.
int64_t bytes_on_link(const std::string& wire, size_t count) {
  if (wire.empty()) return static_cast<int64_t>(count * sizeof(float));
  tuttiCodec_t codec;
  size_t bytes = 0;
  expect(tuttiCodecParse(wire.substr(wire.find(':') + 1).c_str(), &codec), "tuttiCodecParse");
  expect(tuttiCodecBytes(&codec, count, &bytes), "tuttiCodecBytes");
  return static_cast<int64_t>(bytes);
}

/// How a way trains: null means that gradients cross the link in every step.
using MakeOuter = std::unique_ptr<OuterOptimizer> (*)(const Place& place, std::span<float> share);
struct Way {
  const char* name;
  MakeOuter make;
  bool encodes = false;  // the gradients
};

std::vector<Fragment> fragments_of(std::span<const float> share, int64_t fragments) {
  std::vector<int64_t> runs;  // like layers, three to a fragment
  const int64_t whole = std::ssize(share), count = 3 * fragments;
  for (int64_t r = 0; r < count; ++r) runs.push_back(whole * (r + 1) / count - whole * r / count);
  return strided_fragments(runs, static_cast<int>(fragments));
}

constexpr Way kWays[] = {
    {"every step", nullptr},
    {"every step, encoded", nullptr, true},
    {"DiLoCo",
     [](const Place& place, std::span<float> share) -> std::unique_ptr<OuterOptimizer> {
       return std::make_unique<DiLoCo>(OuterGroup{place.across(), 0}, share,
                                       DiLoCoSpec{.period = kPeriod});
     }},
    {"Streaming DiLoCo",
     [](const Place& place, std::span<float> share) -> std::unique_ptr<OuterOptimizer> {
       return std::make_unique<StreamingDiLoCo>(
           OuterGroup{place.across(), 0}, share, fragments_of(share, 4),
           StreamingSpec{.period = kPeriod, .delay = 2, .mixing = 0.5f, .codec = "e3m0:256"});
     }},
    {"SparseLoCo",
     [](const Place& place, std::span<float> share) -> std::unique_ptr<OuterOptimizer> {
       return std::make_unique<SparseLoCo>(
           OuterGroup{place.across(), 0}, share,
           SparseLoCoSpec{.period = kPeriod, .beta = 0.95f, .codec = "top_k:1024:64:4"});
     }},
};

/// With biases of 0 the network is an odd function, which needs very many steps to become anything
/// else, and half of what it is to learn is even.
Values initial_values(const Layers& layers) {
  Values all;
  Dice dice(100);
  for (int layer = 0; layer < kLayerCount; ++layer) {
    Values own = initial_parameters(layer, layers);
    std::generate(own.begin() + layers[layer].weights(), own.end(),
                  [&] { return dice.next() / 2; });
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

/// A rank's training by one way.
class Training {
 public:
  Training(const Way& way, const Place& place, const Settings& settings)
      : place_(place), settings_(settings), layers_(layers_of(settings.width)), way_(way) {
    parameters_ = initial_values(layers_);
    velocity_.resize(parameters_.size());
    const auto steps = static_cast<size_t>(settings.steps);
    losses_.resize(steps), seconds_.resize(steps), bytes_.resize(steps);
    if (way.make != nullptr) outer_ = way.make(place, place.share(parameters_));
    // "always": on this link it is the way that is asked for, whatever it costs.
    const std::string wire = way.encodes ? "always," + settings.wire : "";
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.wire = wire.c_str();
    expect(tuttiCommSetOptions(place.across(), &options), "tuttiCommSetOptions");
  }

  void run() {
    expect(tuttiBarrier(place_.across(), tuttiBlocking()), "tuttiBarrier");
    const auto start = std::chrono::steady_clock::now();
    for (int step = 1; step <= settings_.steps; ++step) {
      take_step(step);
      const auto now = static_cast<size_t>(step - 1);
      seconds_[now] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      bytes_[now] = outer_ == nullptr ? step * gradient_bytes() : outer_->bytes_sent();
    }
    if (outer_ != nullptr) outer_->finish(place_.share(parameters_));
  }

  /// Of all ranks, behind the training: losses are means, bytes those of a site.
  void print(tuttiComm_t all) {
    sum_over(all, losses_);
    expect(tuttiAllReduce(bytes_.data(), bytes_.data(), bytes_.size(), tuttiInt64, tuttiSum,
                          place_.site(), tuttiBlocking()),
           "tuttiAllReduce");
    if (place_.rank() != 0) return;
    float loss = 0;
    for (int step = 1; step <= settings_.steps; ++step) {
      const auto now = static_cast<size_t>(step - 1);
      loss += losses_[now] / (kMicroBatches * kSamples) / static_cast<float>(settings_.shown);
      if (step % settings_.shown != 0) continue;
      std::printf("%-19s step %3d  seconds %8.3f  loss %.5f  bytes %9lld\n", way_.name, step,
                  seconds_[now], static_cast<double>(loss), static_cast<long long>(bytes_[now]));
      loss = 0;
    }
    std::fflush(stdout);
  }

 private:
  int64_t gradient_bytes() {
    return bytes_on_link(way_.encodes ? settings_.wire : "", place_.share(parameters_).size());
  }

  void take_step(int step) {
    losses_[static_cast<size_t>(step - 1)] =
        add_gradients(place_, layers_, parameters_, step, gradients_);
    sum_over(place_.site(), gradients_);
    if (outer_ == nullptr) {
      sum_over(place_.across(), place_.share(gradients_));
      place_.gather(gradients_);
    }
    // step_parameters() divides by all samples of a step; a site that is alone has half of them.
    const float share = outer_ == nullptr ? 1.0f : kSites;
    for (size_t i = 0; i < velocity_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] + share * gradients_[i];
    }
    step_parameters(parameters_.data(), velocity_.data(), velocity_.size(), settings_.rate);
    if (outer_ == nullptr) return;
    const OuterReport report = outer_->boundary(step, place_.share(parameters_));
    if (report.applied >= 0) place_.gather(parameters_);
  }

  const Place& place_;
  const Settings& settings_;
  Layers layers_;
  const Way& way_;
  Values parameters_, gradients_, velocity_;
  std::unique_ptr<OuterOptimizer> outer_;  // null: gradients cross the link in every step
  std::vector<float> losses_;              // of each step
  std::vector<double> seconds_;
  std::vector<int64_t> bytes_;  // since the start
};

template <class Number>
void read_number(const std::string& name, const char* text, Number& number) {
  const std::string_view all(text);
  const auto [end, wrong] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (wrong != std::errc() || end != all.data() + all.size() || !(number > 0)) {
    throw std::invalid_argument(name + " " + text + ": give a number above 0");
  }
}

Settings read_settings(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--ranks")
      read_number(name, argv[i + 1], settings.ranks);
    else if (name == "--width")
      read_number(name, argv[i + 1], settings.width);
    else if (name == "--steps")
      read_number(name, argv[i + 1], settings.steps);
    else if (name == "--shown")
      read_number(name, argv[i + 1], settings.shown);
    else if (name == "--rate")
      read_number(name, argv[i + 1], settings.rate);
    else if (name == "--wire")
      settings.wire = argv[i + 1];
    else
      throw std::invalid_argument("there is no option " + name);
  }
  if (argc % 2 == 0) throw std::invalid_argument(std::string(argv[argc - 1]) + " has no value");
  return settings;
}

void train_all_ways(tuttiComm_t comm, const Settings& settings) {
  const Place place(comm, parameters_before(layers_of(settings.width), kLayerCount));
  for (const Way& way : kWays) {
    if (way.encodes && settings.wire.empty()) continue;
    Training training(way, place, settings);
    training.run();
    training.print(comm);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  try {
    settings = read_settings(argc, argv);
  } catch (const std::invalid_argument& wrong) {
    std::fprintf(stderr,
                 "%s\nusage: %s [--ranks N] [--width N] [--steps N] [--shown N] [--rate X] "
                 "[--wire LEVEL:CODEC]\n",
                 wrong.what(), argv[0]);
    return 2;
  }
  return run_ranks(settings.ranks, [&](tuttiComm_t comm) { train_all_ways(comm, settings); });
}
