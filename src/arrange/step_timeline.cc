#include "src/arrange/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tutti/runtime/generators.h"

namespace tutti::arrange {
namespace {

using runtime::Bytes;
using runtime::Nanoseconds;
using runtime::TaskKind;

// A timeline of so many passes is simulated in a fraction of a second.
constexpr uint64_t kMostPasses = 20'000;

Nanoseconds whole(double ns) { return Nanoseconds(std::llround(ns)); }

double makespan(const runtime::Timeline& timeline) {
  const runtime::History history = runtime::simulate(timeline);
  int64_t end = 0;
  for (const runtime::TaskSpan& span : history.spans) end = std::max(end, span.end.value);
  return static_cast<double>(end);
}

}  // namespace

runtime::Timeline step_timeline(const StepPricer& pricer, const Arrangement& arrangement,
                                const StepPricer::TimeOf& time_of, uint32_t micro_batches) {
  const StepPrice price = pricer.price(arrangement, time_of);
  double turn = price.computing;
  for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kExpert}) {
    turn += price.exposed[static_cast<size_t>(axis)];
  }
  turn /= arrangement.micro_batches;
  std::vector<double> hops = pricer.hops(arrangement, time_of);
  runtime::PipelineSpec spec;
  spec.ranks = static_cast<int>(arrangement.degree(Axis::kPipeline));
  spec.micro_batches = static_cast<int>(micro_batches);
  spec.chunks = static_cast<int>(arrangement.chunks);
  const double forward = turn / (arrangement.recomputed ? 4 : 3);
  // Each chunk takes a whole number of nanoseconds.
  spec.forward = whole(forward / spec.chunks) * spec.chunks;
  spec.backward = whole((turn - forward) / spec.chunks) * spec.chunks;
  spec.message = Bytes(static_cast<int64_t>(pricer.exchanges(arrangement).message.bytes));
  // The order of receives follows from one time for all; the slowest is what others wait for.
  double slowest = 0;
  for (const double hop : hops) slowest = std::max(slowest, hop);
  spec.transfer = whole(slowest);
  runtime::Timeline timeline = runtime::pipeline(spec);
  hops.push_back(slowest);  // from the last rank to the first
  const auto ranks = hops.size();
  for (runtime::TimelineTask& task : timeline.tasks) {
    if (task.kind != TaskKind::kSend && task.kind != TaskKind::kRecv) continue;
    const runtime::RankSet& ends = timeline.channels[static_cast<size_t>(task.channel)];
    const auto from = static_cast<size_t>(ends[0]), to = static_cast<size_t>(ends[1]);
    task.duration = whole(hops[(from + 1) % ranks == to ? from : to]);
  }
  return timeline;
}

StepPrice timeline_price(const StepPricer& pricer, const Arrangement& arrangement,
                         const StepPricer::TimeOf& time_of) {
  StepPrice price = pricer.price(arrangement, time_of);
  const uint32_t stages = arrangement.degree(Axis::kPipeline);
  if (stages == 1) return price;
  const uint32_t all = arrangement.micro_batches;
  const uint64_t rounds = kMostPasses / (uint64_t{stages} * stages * arrangement.chunks);
  const uint32_t many =
      std::min(all, stages * static_cast<uint32_t>(std::clamp<uint64_t>(rounds, 3, 8)));
  const auto time = [&](uint32_t micro_batches) {
    return makespan(step_timeline(pricer, arrangement, time_of, micro_batches));
  };
  double pipeline = time(many);
  if (many < all) pipeline += (pipeline - time(many - stages)) / stages * (all - many);
  double busy = price.computing;
  for (const Axis axis : {Axis::kTensor, Axis::kContext, Axis::kExpert}) {
    busy += price.exposed[static_cast<size_t>(axis)];
  }
  const double gradients = price.exposed[static_cast<size_t>(Axis::kData)];
  price.bubble = std::min(price.bubble, pipeline - busy);
  price.exposed[static_cast<size_t>(Axis::kPipeline)] = pipeline - busy - price.bubble;
  price.ns = pipeline + gradients;
  return price;
}

}  // namespace tutti::arrange
