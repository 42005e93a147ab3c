#include "src/sim/fluid.h"

#include <algorithm>
#include <limits>

namespace tutti::sim {

namespace {
constexpr double kUnbounded = std::numeric_limits<double>::infinity();
}

Fluid::Fluid(std::vector<double> capacities) : links_(capacities.size()) {
  for (size_t i = 0; i < capacities.size(); ++i) links_[i].capacity = capacities[i];
}

uint32_t Fluid::add(std::span<const LinkUse> path, double bytes, Time now) {
  uint32_t id;
  if (free_.empty()) {
    id = static_cast<uint32_t>(flows_.size());
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  FluidFlow& flow = flows_[id];
  const uint32_t version = flow.version + 1;
  flow =
      FluidFlow{.path = path, .bytes_left = bytes, .since = now, .version = version, .alive = true};
  for (const LinkUse& use : path) {
    links_[use.link].flows.push_back({id, use.times});
    mark_link(use.link);
  }
  mark(id);
  return id;
}

void Fluid::remove(uint32_t id) {
  FluidFlow& flow = flows_[id];
  ++flow.version;
  for (const LinkUse& use : flow.path) {
    std::vector<FlowUse>& flows = links_[use.link].flows;
    const auto found = std::find_if(flows.begin(), flows.end(),
                                    [id](const FlowUse& one) { return one.flow == id; });
    *found = flows.back();
    flows.pop_back();
    mark_link(use.link);
  }
  flow.path = {};
  flow.alive = false;
  free_.push_back(id);
}

void Fluid::set_stop(uint32_t flow, double left) {
  flows_[flow].stop = left;
  mark(flow);
}

uint32_t Fluid::add_link(double capacity) {
  links_.push_back({.capacity = capacity, .flows = {}});
  return static_cast<uint32_t>(links_.size() - 1);
}

void Fluid::set_capacity(uint32_t link, double capacity) {
  links_[link].capacity = capacity;
  mark_link(link);
}

double Fluid::left(uint32_t id, Time now) const {
  const FluidFlow& flow = flows_[id];
  if (now == flow.since || flow.rate == 0) return flow.bytes_left;
  if (flow.rate == kUnbounded) return 0;
  return std::max(0.0, flow.bytes_left - flow.rate * nanoseconds(now - flow.since));
}

void Fluid::mark(uint32_t flow) {
  if (flows_[flow].dirty) return;
  flows_[flow].dirty = true;
  dirty_flows_.push_back(flow);
}

void Fluid::mark_link(uint32_t link) {
  if (links_[link].dirty) return;
  links_[link].dirty = true;
  dirty_links_.push_back(link);
}

void Fluid::collect_link(uint32_t id) {
  FluidLink& link = links_[id];
  if (link.collected) return;
  link.collected = true;
  part_links_.push_back(id);
}

// All that is joined to the changed links by flows: rates elsewhere stay as they are.
void Fluid::collect() {
  part_links_.clear();
  part_flows_.clear();
  for (const uint32_t link : dirty_links_) {
    links_[link].dirty = false;
    collect_link(link);
  }
  dirty_links_.clear();
  for (size_t i = 0; i < part_links_.size(); ++i) {
    for (const FlowUse& use : links_[part_links_[i]].flows) {
      FluidFlow& flow = flows_[use.flow];
      if (flow.collected) continue;
      flow.collected = true;
      flow.has_rate = false;
      part_flows_.push_back(use.flow);
      for (const LinkUse& other : flow.path) collect_link(other.link);
    }
  }
}

double Fluid::least_share() const {
  double least = kUnbounded;
  for (const uint32_t id : part_links_) {
    const FluidLink& link = links_[id];
    if (link.open > 0) least = std::min(least, link.rest / static_cast<double>(link.open));
  }
  return least;
}

void Fluid::settle_flows_of(FluidLink& link, double share) {
  for (const FlowUse& use : link.flows) {
    FluidFlow& flow = flows_[use.flow];
    if (flow.has_rate) continue;
    flow.has_rate = true;
    flow.new_rate = share;
    for (const LinkUse& each : flow.path) links_[each.link].settled += each.times;
  }
}

// Water filling: the links on which a flow gets least have no room for more, so their flows are
// settled, and the others share what is left.
void Fluid::fill() {
  for (const uint32_t id : part_links_) {
    FluidLink& link = links_[id];
    link.rest = link.capacity;
    link.open = link.settled = 0;
    for (const FlowUse& use : link.flows) link.open += use.times;
  }
  for (double share = least_share(); share < kUnbounded; share = least_share()) {
    for (const uint32_t id : part_links_) {
      FluidLink& link = links_[id];
      const bool full = link.open > 0 && link.rest / static_cast<double>(link.open) == share;
      if (full) settle_flows_of(link, share);
    }
    for (const uint32_t id : part_links_) {
      FluidLink& link = links_[id];
      link.rest = std::max(0.0, link.rest - share * static_cast<double>(link.settled));
      link.open -= link.settled;
      link.settled = 0;
    }
  }
}

void Fluid::apply(Time now) {
  for (const uint32_t id : part_flows_) {
    FluidFlow& flow = flows_[id];
    flow.collected = false;
    if (flow.new_rate == flow.rate) continue;
    flow.bytes_left = left(id, now);
    flow.since = now;
    flow.rate = flow.new_rate;
    mark(id);
  }
  for (const uint32_t id : part_links_) links_[id].collected = false;
}

std::span<const Fluid::Due> Fluid::settle(Time now) {
  if (!dirty_links_.empty()) {
    collect();
    fill();
    apply(now);
  }
  due_.clear();
  for (const uint32_t id : dirty_flows_) {
    FluidFlow& flow = flows_[id];
    flow.dirty = false;
    if (!flow.alive) continue;
    ++flow.version;
    if (flow.path.empty()) flow.rate = kUnbounded;
    const double until = std::max(0.0, flow.bytes_left - flow.stop);
    const Time due = flow.rate == 0 ? kNever : later(flow.since, picoseconds(until / flow.rate));
    due_.push_back({std::max(due, now), id, flow.version});
  }
  dirty_flows_.clear();
  return due_;
}

}  // namespace tutti::sim
