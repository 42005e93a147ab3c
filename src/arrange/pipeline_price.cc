#include "src/arrange/pipeline_price.h"

#include <algorithm>

namespace tutti::arrange {
namespace {

// How much longer a turn is because of messages.
double exposed_in_turn(const PipelineTimes& times) {
  double slowest = times.chunks > 1 ? times.wrap : 0, all = 0;
  for (const double hop : times.hops) slowest = std::max(slowest, hop);
  if (slowest == 0) return 0;
  if (!times.overlaps) return 2 * times.chunks * slowest;
  const double stages = static_cast<double>(times.hops.size()) + 1;
  const double on_wire = std::max(0.0, times.chunks * slowest - times.turn);
  if (times.chunks > 1) {
    for (const double hop : times.hops) all += hop;
    const double messages = 2 * (times.chunks * all + (times.chunks - 1) * times.wrap);
    const double under_way = stages * (1 + 1.0 / times.chunks);
    const double turn = (stages * times.turn + messages) / under_way;
    return std::max(on_wire, turn - times.turn);
  }
  double most = on_wire;
  for (size_t stage = times.hops.size(); stage-- > 0;) {
    all += times.hops[stage];
    most = std::max(most, 2 * all / (stages - static_cast<double>(stage)));
  }
  return most;
}

}  // namespace

PipelineStep pipeline_step(const PipelineTimes& times) {
  PipelineStep step;
  const double more = exposed_in_turn(times);
  const auto stages = static_cast<double>(times.hops.size());
  double fill = 0;
  for (const double hop : times.hops) fill += 2 * hop;
  step.bubble = stages / times.chunks * times.turn;
  step.exposed = times.micro_batches * more + (times.overlaps ? fill : 0);
  step.ns = times.micro_batches * times.turn + step.bubble + step.exposed;
  return step;
}

}  // namespace tutti::arrange
