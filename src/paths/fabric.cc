#include "src/paths/fabric.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

namespace tutti::paths {
namespace {

std::string name_of(uint32_t flow, const Flow& what) {
  return "flow " + std::to_string(flow) + " from leaf " + std::to_string(what.source) +
         " to leaf " + std::to_string(what.target);
}

// A leaf's bytes over all its living links of one direction.
double least_time(const Fabric& fabric, const std::vector<double>& capacities,
                  const std::vector<double>& bytes) {
  double most = 0;
  for (uint32_t leaf = 0; leaf < fabric.leaves; ++leaf) {
    double capacity = 0;
    for (uint32_t spine = 0; spine < fabric.spines; ++spine) {
      capacity += capacities[fabric.link(leaf, spine)];
    }
    if (bytes[leaf] > 0) most = std::max(most, bytes[leaf] / capacity);
  }
  return most;
}

Status check_piece(const Fabric& fabric, const std::vector<Flow>& flows, const Placed& piece) {
  if (piece.flow >= flows.size() || piece.spine >= fabric.spines) {
    return Status::invalid_argument("a piece of flow " + std::to_string(piece.flow) +
                                    " over spine " + std::to_string(piece.spine) +
                                    ", and one of the two is not there");
  }
  const Flow& flow = flows[piece.flow];
  if (flow.source == flow.target) return {};
  const bool up = fabric.up[fabric.link(flow.source, piece.spine)] > 0;
  if (up && fabric.down[fabric.link(flow.target, piece.spine)] > 0) return {};
  return Status::invalid_argument(name_of(piece.flow, flow) + " goes over spine " +
                                  std::to_string(piece.spine) + ", whose link " +
                                  (up ? "down to leaf " + std::to_string(flow.target)
                                      : "up from leaf " + std::to_string(flow.source)) +
                                  " is dead");
}

// Every flow is placed whole, and in one plane.
Status check_flows(const Fabric& fabric, const std::vector<Flow>& flows,
                   const std::vector<Placed>& placed, const PlacementRules& rules) {
  constexpr double kRounding = 1e-9;
  std::vector<double> bytes(flows.size());
  std::vector<std::optional<uint32_t>> planes(flows.size());
  for (const Placed& piece : placed) {
    bytes[piece.flow] += piece.bytes;
    std::optional<uint32_t>& plane = planes[piece.flow];
    if (!plane) plane = fabric.plane(piece.spine);
    if (*plane == fabric.plane(piece.spine) || rules.planes_may_differ) continue;
    return Status::invalid_argument(name_of(piece.flow, flows[piece.flow]) +
                                    " uses ports of planes " + std::to_string(*plane) + " and " +
                                    std::to_string(fabric.plane(piece.spine)));
  }
  for (uint32_t flow = 0; flow < flows.size(); ++flow) {
    if (std::abs(bytes[flow] - flows[flow].bytes) <= kRounding * flows[flow].bytes) continue;
    return Status::invalid_argument(name_of(flow, flows[flow]) + " has " +
                                    std::to_string(flows[flow].bytes) + " bytes, its pieces have " +
                                    std::to_string(bytes[flow]));
  }
  return {};
}

}  // namespace

Fabric Fabric::uniform(uint32_t leaves, uint32_t spines, double capacity) {
  const std::vector<double> links(size_t{leaves} * spines, capacity);
  return {leaves, spines, {}, links, links};
}

Status Fabric::check() const {
  const size_t links = size_t{leaves} * spines;
  if (links == 0) return Status::invalid_argument("a fabric without leaves or spines");
  if (up.size() != links || down.size() != links ||
      (!plane_of.empty() && plane_of.size() != spines)) {
    return Status::invalid_argument("a fabric of " + std::to_string(leaves) + " leaves and " +
                                    std::to_string(spines) +
                                    " spines says another number of capacities or planes");
  }
  const auto negative = [](double capacity) { return !(capacity >= 0); };
  if (std::any_of(up.begin(), up.end(), negative) ||
      std::any_of(down.begin(), down.end(), negative)) {
    return Status::invalid_argument("a link of a fabric has a negative capacity");
  }
  return {};
}

Result<Loads> loads_of(const Fabric& fabric, const std::vector<Flow>& flows,
                       const std::vector<Placed>& placed, const PlacementRules& rules) {
  if (Status status = fabric.check(); !status.ok()) return status;
  for (const Placed& piece : placed) {
    if (Status status = check_piece(fabric, flows, piece); !status.ok()) return status;
  }
  if (Status status = check_flows(fabric, flows, placed, rules); !status.ok()) return status;
  Loads loads;
  loads.up.assign(fabric.up.size(), 0);
  loads.down.assign(fabric.down.size(), 0);
  std::vector<double> sent(fabric.leaves), taken(fabric.leaves);
  for (const Placed& piece : placed) {
    const Flow& flow = flows[piece.flow];
    if (flow.source == flow.target) continue;
    const size_t up = fabric.link(flow.source, piece.spine);
    const size_t down = fabric.link(flow.target, piece.spine);
    loads.up[up] += piece.bytes / fabric.up[up];
    loads.down[down] += piece.bytes / fabric.down[down];
    loads.most = std::max({loads.most, loads.up[up], loads.down[down]});
    sent[flow.source] += piece.bytes;
    taken[flow.target] += piece.bytes;
  }
  loads.least_possible =
      std::max(least_time(fabric, fabric.up, sent), least_time(fabric, fabric.down, taken));
  return loads;
}

}  // namespace tutti::paths
