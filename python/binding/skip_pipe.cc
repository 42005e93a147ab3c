// Pipelines whose micro-batches skip stages.
#include "tutti/runtime/skip_pipe.h"

#include "part.h"
#include "record.h"

namespace tutti::python {

namespace nb = nanobind;
using namespace nb::literals;
using namespace runtime;

namespace {

std::vector<Nanoseconds> times(const Integers& numbers) {
  std::vector<Nanoseconds> list;
  for (const int64_t number : numbers.values) list.emplace_back(number);
  return list;
}

}  // namespace

void add_skip_pipe(nb::module_& module) {
  record<SkipVisit>(module, "SkipVisit", "A micro-batch on a rank.",
                    field("rank", &SkipVisit::rank, "visited"),
                    field("begin", &SkipVisit::begin, "ns"), field("end", &SkipVisit::end, "ns"));
  record<SkipPath>(module, "SkipPath", "The way of a micro-batch.",
                   field("ranks", &SkipPath::ranks, "in the order of the forward pass"),
                   field("visits", &SkipPath::visits, "forward, the loss, backward"));
  record<SkipPlan>(module, "SkipPlan", "A way for each micro-batch.",
                   field("paths", &SkipPlan::paths, "SkipPath objects"),
                   field("expected", &SkipPlan::expected, "ns until the last visit ends"),
                   field("is_best", &SkipPlan::is_best, "all plans were tried"));
  module.def(
      "skip_pipeline",
      [](const Integers& stage_of, int micro_batches, int path_length, int node_memory,
         const Integers& forward, const Integers& backward, const Integers& transfer, uint64_t seed,
         Nanoseconds loss, Bytes message, Bytes activations, bool swaps, int orders) {
        SkipPipeSpec spec;
        spec.stage_of = stage_of.narrow();
        spec.micro_batches = micro_batches;
        spec.path_length = path_length;
        spec.node_memory = node_memory;
        spec.forward = times(forward);
        spec.backward = times(backward);
        spec.transfer = times(transfer);
        spec.seed = seed;
        spec.loss = loss;
        spec.message = message;
        spec.activations = activations;
        spec.swaps = swaps;
        spec.orders = orders;
        SkipPlan plan = plan_paths(spec);
        Timeline timeline = skip_pipeline(spec, plan);
        return nb::make_tuple(std::move(plan), std::move(timeline));
      },
      "stage_of"_a, "micro_batches"_a, "path_length"_a, "node_memory"_a, "forward"_a, "backward"_a,
      "transfer"_a, "seed"_a, "loss"_a = Nanoseconds(0), "message"_a = Bytes(0),
      "activations"_a = Bytes(1), "swaps"_a = false, "orders"_a = 32,
      "(SkipPlan, Timeline): micro-batches that skip stages (SkipPipe, arXiv:2502.19913). "
      "`stage_of`, `forward` and `backward` (ns) are of each rank, `transfer` (ns) of each pair of "
      "ranks, row by row; each of `micro_batches` visits `path_length` stages, stage 0 among them, "
      "and a rank `node_memory` of them at most.\n\n"
      ">>> plan, timeline = tutti.skip_pipeline([0, 1, 2], 1, 2, 1, [10] * 3, [20] * 3, [0] * 9, "
      "seed=1)\n"
      ">>> plan.paths[0].ranks, plan.expected, timeline.check()\n"
      "([0, 1], 60, [])");
}

}  // namespace tutti::python
