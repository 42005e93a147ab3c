// Places pieces of flows one by one where the busier of their two links ends first.
//
// It serves plans of flows that are all known, longest first, and connections that come one by one.
//
// Owns: what each link carries so far. Threads: one object belongs to one thread. Units: bytes,
// nanoseconds. Errors: place() has no answer where no living path joins two leaves.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "src/paths/fabric.h"

namespace tutti::paths {

class Balancer {
 public:
  Balancer(Fabric fabric, const PlacementRules& rules);

  /// The spine of one more flow, which belongs to no other piece.
  std::optional<uint32_t> place(const Flow& flow);
  /// Sets the spine of a piece of `flow`; a living path is there, in the plane of its other pieces.
  void put(const Flow& flow, Placed& piece);
  /// Moves pieces off the busiest link while one of them finds a better place.
  void improve(const std::vector<Flow>& flows, std::vector<Placed>& pieces);

 private:
  std::optional<uint32_t> best_spine(const Flow& flow, const Placed& piece) const;
  bool move(const Flow& flow, Placed& piece, double most);
  bool may_use(uint32_t flow, uint32_t spine) const;
  double busy_with(const Flow& flow, uint32_t spine, double bytes) const;
  double busiest() const;
  void add(const Flow& flow, const Placed& piece, int sign);

  Fabric fabric_;
  PlacementRules rules_;
  std::vector<double> up_, down_;  // by Fabric::link: nanoseconds busy
  // Of a flow: its plane, and how many pieces it has there.
  std::map<uint32_t, std::pair<uint32_t, int>> plane_of_;
};

}  // namespace tutti::paths
