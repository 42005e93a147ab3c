#include "src/paths/balancer.h"

#include <algorithm>

namespace tutti::paths {

Balancer::Balancer(Fabric fabric, const PlacementRules& rules)
    : fabric_(std::move(fabric)),
      rules_(rules),
      up_(fabric_.up.size()),
      down_(fabric_.down.size()) {}

std::optional<uint32_t> Balancer::place(const Flow& flow) {
  Placed piece{~0u, 0, flow.bytes};
  const std::optional<uint32_t> spine = best_spine(flow, piece);
  if (!spine) return std::nullopt;
  const size_t up = fabric_.link(flow.source, *spine), down = fabric_.link(flow.target, *spine);
  up_[up] += flow.bytes / fabric_.up[up];
  down_[down] += flow.bytes / fabric_.down[down];
  return spine;
}

void Balancer::put(const Flow& flow, Placed& piece) {
  piece.spine = best_spine(flow, piece).value_or(0);
  add(flow, piece, 1);
}

void Balancer::improve(const std::vector<Flow>& flows, std::vector<Placed>& pieces) {
  const size_t most_moves = 4 * pieces.size() + 16;
  for (size_t moves = 0; moves < most_moves; ++moves) {
    const double most = busiest();
    const bool moved = std::any_of(pieces.begin(), pieces.end(), [&](Placed& piece) {
      const Flow& flow = flows[piece.flow];
      return busy_with(flow, piece.spine, 0) == most && move(flow, piece, most);
    });
    if (!moved) return;
  }
}

std::optional<uint32_t> Balancer::best_spine(const Flow& flow, const Placed& piece) const {
  std::optional<uint32_t> best;
  double least = 0;
  for (uint32_t spine = 0; spine < fabric_.spines; ++spine) {
    if (!fabric_.joins(flow.source, flow.target, spine) || !may_use(piece.flow, spine)) continue;
    const double busy = busy_with(flow, spine, piece.bytes);
    if (best && busy >= least) continue;
    least = busy;
    best = spine;
  }
  return best;
}

bool Balancer::move(const Flow& flow, Placed& piece, double most) {
  const uint32_t old = piece.spine;
  add(flow, piece, -1);
  put(flow, piece);
  const bool better = busy_with(flow, piece.spine, 0) < most;
  if (piece.spine != old && better) return true;
  add(flow, piece, -1);
  piece.spine = old;
  add(flow, piece, 1);
  return false;
}

bool Balancer::may_use(uint32_t flow, uint32_t spine) const {
  if (rules_.planes_may_differ) return true;
  const auto used = plane_of_.find(flow);
  return used == plane_of_.end() || used->second.second == 0 ||
         used->second.first == fabric_.plane(spine);
}

double Balancer::busy_with(const Flow& flow, uint32_t spine, double bytes) const {
  const size_t up = fabric_.link(flow.source, spine), down = fabric_.link(flow.target, spine);
  return std::max(up_[up] + bytes / fabric_.up[up], down_[down] + bytes / fabric_.down[down]);
}

double Balancer::busiest() const {
  return std::max(*std::max_element(up_.begin(), up_.end()),
                  *std::max_element(down_.begin(), down_.end()));
}

void Balancer::add(const Flow& flow, const Placed& piece, int sign) {
  const size_t up = fabric_.link(flow.source, piece.spine);
  const size_t down = fabric_.link(flow.target, piece.spine);
  up_[up] += sign * piece.bytes / fabric_.up[up];
  down_[down] += sign * piece.bytes / fabric_.down[down];
  auto& [plane, pieces] = plane_of_[piece.flow];
  plane = fabric_.plane(piece.spine);
  pieces += sign;
}

}  // namespace tutti::paths
