// Two sites with a slow link between them train one network, four ways: gradients averaged in every
// step, DiLoCo, Streaming DiLoCo and SparseLoCo. Prints the loss over the bytes that crossed the
// link.
//
//   build/bin/examples/two_sites --ranks 4
//
// Within a site ranks average gradients in every step. Of what crosses the link each rank has a
// share of the parameters, and exchanges it with the rank of the same place in the other site.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/network.h"
#include "examples/ranks.h"
#include "tutti/runtime/communicators.h"
#include "tutti/runtime/outer/diloco.h"
#include "tutti/runtime/outer/sparse_loco.h"

namespace {

using namespace examples;
using namespace tutti::runtime;

constexpr int kSites = 2;
constexpr int kTrainingSteps = 240;
constexpr int kShown = 60;  // steps between two lines
constexpr int64_t kPeriod = 20;

/// The whole network, one layer behind the other.
int64_t parameters_before(int layer) {
  int64_t count = 0;
  for (int l = 0; l < layer; ++l) count += kLayers[l].parameters();
  return count;
}

/// A rank's place: its site, the ranks of it, and its partner at the other one.
class Place {
 public:
  explicit Place(tuttiComm_t comm) : comms_(comm), ranks_(comms_.ranks()), rank_(comms_.rank()) {
    if (ranks_ % kSites != 0) throw std::runtime_error("two sites need 2, 4 or 8 ranks");
    const Mesh mesh({{"place", ranks_ / kSites}, {"site", kSites}});
    site_ = comms_.of(mesh, std::vector<std::string>{"place"});
    across_ = comms_.of(mesh, std::vector<std::string>{"site"});
    int place = 0;
    expect(tuttiCommUserRank(site_, &place), "tuttiCommUserRank");
    const auto whole = static_cast<size_t>(parameters_before(kLayerCount));
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

/// Forward and backward of this rank's micro-batches; gradients, and behind them the loss.
Values gradients_of(const Place& place, const Values& parameters, int step) {
  Values sum(parameters.size() + 1, 0.0f);
  const int each = kMicroBatches / place.ranks();
  for (int m = 0; m < each; ++m) {
    MicroBatch batch;
    begin(batch, step, place.rank() * each + m);
    for (int layer = 0; layer < kLayerCount; ++layer) {
      forward(batch, layer, parameters.data() + parameters_before(layer));
    }
    measure(batch);
    for (int layer = kLayerCount - 1; layer >= 0; --layer) {
      const auto first = static_cast<size_t>(parameters_before(layer));
      backward(batch, layer, parameters.data() + first);
      for (size_t i = 0; i < batch.gradients[layer].size(); ++i) {
        sum[first + i] += batch.gradients[layer][i];
      }
    }
    sum.back() += batch.loss;
  }
  return sum;
}

void sum_over(tuttiComm_t comm, std::span<float> values) {
  expect(tuttiAllReduce(values.data(), values.data(), values.size(), tuttiFloat32, tuttiSum, comm,
                        tuttiBlocking()),
         "tuttiAllReduce");
}

/// How a way trains: null means that gradients cross the link in every step.
using MakeOuter = std::unique_ptr<OuterOptimizer> (*)(const Place& place, std::span<float> share);
struct Way {
  const char* name;
  MakeOuter make;
};

std::vector<Fragment> fragments_of(std::span<const float> share, int64_t fragments) {
  std::vector<int64_t> runs;  // like layers, three to a fragment
  const int64_t whole = std::ssize(share), count = 3 * fragments;
  for (int64_t r = 0; r < count; ++r) runs.push_back(whole * (r + 1) / count - whole * r / count);
  return strided_fragments(runs, static_cast<int>(fragments));
}

constexpr Way kWays[] = {
    {"every step", nullptr},
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

/// The bytes that cross the link, from one site to the other.
int64_t bytes_of_site(const Place& place, int64_t of_rank) {
  expect(tuttiAllReduce(&of_rank, &of_rank, 1, tuttiInt64, tuttiSum, place.site(), tuttiBlocking()),
         "tuttiAllReduce");
  return of_rank;
}

void train(const Way& way, const Place& place, tuttiComm_t all) {
  Values parameters;
  for (int layer = 0; layer < kLayerCount; ++layer) {
    const Values own = initial_parameters(layer);
    parameters.insert(parameters.end(), own.begin(), own.end());
  }
  std::unique_ptr<OuterOptimizer> outer;
  if (way.make != nullptr) outer = way.make(place, place.share(parameters));
  int64_t bytes = 0;
  float loss = 0;
  for (int step = 1; step <= kTrainingSteps; ++step) {
    Values gradients = gradients_of(place, parameters, step);
    const std::span<float> values(gradients.data(), parameters.size());
    sum_over(place.site(), values);
    if (outer == nullptr) {
      sum_over(place.across(), place.share(gradients));
      place.gather(gradients);
      bytes += static_cast<int64_t>(place.share(parameters).size_bytes());
    }
    // step_parameters() divides by all samples of a step; a site that is alone has half of them.
    const float share = outer == nullptr ? 1.0f : kSites;
    for (float& gradient : values) gradient *= share;
    step_parameters(parameters.data(), gradients.data(), parameters.size());
    if (outer != nullptr) {
      const OuterReport report = outer->boundary(step, place.share(parameters));
      if (report.applied >= 0) place.gather(parameters);
    }
    sum_over(all, std::span(gradients).last(1));
    loss += gradients.back() / (kMicroBatches * kSamples) / kShown;
    if (step % kShown != 0) continue;
    const int64_t sent = bytes_of_site(place, outer == nullptr ? bytes : outer->bytes_sent());
    if (place.rank() == 0) {
      std::printf("%-17s step %3d  loss %.5f  bytes %9lld\n", way.name, step,
                  static_cast<double>(loss), static_cast<long long>(sent));
    }
    loss = 0;
  }
  if (outer != nullptr) outer->finish(place.share(parameters));
}

}  // namespace

int main(int argc, char** argv) {
  return run_example(argc, argv, [](tuttiComm_t comm) {
    const Place place(comm);
    for (const Way& way : kWays) train(way, place, comm);
  });
}
