// Example plans that the tests of this folder share.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/schedule/builder.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::plan::examples {

/// "all_reduce/ring" of the algorithms given; null if it is not there.
inline const schedule::Algorithm* find(std::span<const schedule::Algorithm> algorithms,
                                       const std::string& wanted) {
  for (const schedule::Algorithm& algorithm : algorithms) {
    const std::string name =
        std::string(schedule::name_of(algorithm.collective)) + "/" + std::string(algorithm.name);
    if (name == wanted) return &algorithm;
  }
  return nullptr;
}

/// All-gather in which everybody publishes in every lane, and nobody learns that he has been read.
inline schedule::Algorithm publish_everywhere() {
  using namespace schedule;
  Algorithm algorithm{};
  algorithm.collective = Collective::kAllGather;
  algorithm.name = "publish_everywhere";
  algorithm.max_lanes = 8;
  algorithm.shape = [](const Parameters& p) {
    Shape shape;
    shape.collective = Collective::kAllGather;
    shape.ranks = p.ranks;
    shape.lanes = p.lanes;
    shape.input = Partition::equal(p.lanes);
    shape.output = Partition::equal(static_cast<uint32_t>(p.ranks) * p.lanes);
    return shape;
  };
  algorithm.schedule = [](const Parameters& p, int rank) {
    Builder builder(rank);
    for (uint16_t lane = 0; lane < p.lanes; ++lane) {
      builder.lane(lane);
      std::vector<int> others;
      for (int peer = 0; peer < p.ranks; ++peer) {
        if (peer != rank) others.push_back(peer);
      }
      if (!others.empty()) builder.send(input(lane), others);
      for (int peer = 0; peer < p.ranks; ++peer) {
        const Block target = output(static_cast<uint32_t>(peer) * p.lanes + lane);
        if (peer == rank)
          builder.copy(target, input(lane));
        else
          builder.receive(target, peer);
      }
    }
    return std::move(builder).finish();
  };
  algorithm.cost = [](const Parameters&) {
    Cost cost;
    cost.published = Fraction::of(1, 1);
    return cost;
  };
  return algorithm;
}

/// The plans of one call; the lowering must be possible.
inline PlanSet lower(const Lowering& lowering, uint64_t count, bool in_cells) {
  const Result<std::vector<Match>> matches = match_all(lowering);
  const BindRequest request{count, types::DataType::kFloat64, types::ReduceOp::kSum};
  return bind_all(matches.value(), request, small_tuning(in_cells));
}

/// A call that makes it hard for `set` to follow: its frames fill the rings, and when it returns
/// nobody knows whether the others have read them.
inline PlanSet hard_predecessor(const PlanSet& set, Spread spread) {
  static const schedule::Algorithm kAlgorithm = publish_everywhere();
  const std::vector<LanePlan>& lanes = set.plans[0].lanes;
  const bool in_cells = lanes[0].cells > 0;
  Lowering lowering;
  lowering.algorithm = &kAlgorithm;
  lowering.parameters = {.ranks = set.group->ranks(), .lanes = static_cast<uint16_t>(lanes.size())};
  lowering.spread = spread;
  PlanSet before = lower(lowering, in_cells ? 5 : 40, in_cells);
  for (Plan& plan : before.plans) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      plan.lanes[i].cells = std::max(plan.lanes[i].cells, lanes[i].cells);
      plan.lanes[i].frame_bytes = std::max(plan.lanes[i].frame_bytes, lanes[i].frame_bytes);
    }
  }
  return before;
}

}  // namespace tutti::plan::examples
