// Leaves, spines and the flows between leaves: what a plan of paths is made for, and the check of
// one.
//
// A flow goes from its source leaf up to one spine and down to its target leaf. Each spine belongs
// to a plane: cards with two ports have one in each, and a flow that leaves by a port of one plane
// must arrive by a port of the same one, or two flows meet at a port while another is idle (C4,
// arXiv 2406.04594).
//
// Threads: values. Units: bytes; capacities in bytes per nanosecond, 0: the link is dead. Errors:
// loads_of() names the flow, and the link or plane that it may not use.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/status.h"

namespace tutti::paths {

struct Fabric {
  uint32_t leaves = 0;
  uint32_t spines = 0;
  std::vector<uint32_t> plane_of;  // by spine; empty: one plane
  std::vector<double> up;          // [leaf * spines + spine]
  std::vector<double> down;        // [leaf * spines + spine], towards the leaf

  /// All links alike.
  static Fabric uniform(uint32_t leaves, uint32_t spines, double capacity);
  uint32_t plane(uint32_t spine) const { return plane_of.empty() ? 0 : plane_of[spine]; }
  size_t link(uint32_t leaf, uint32_t spine) const { return size_t{leaf} * spines + spine; }
  /// Whether both links of this spine live.
  bool joins(uint32_t source, uint32_t target, uint32_t spine) const {
    return up[link(source, spine)] > 0 && down[link(target, spine)] > 0;
  }
  Status check() const;
};

struct Flow {
  uint32_t source = 0;  // leaf
  uint32_t target = 0;  // leaf; a flow within a leaf takes no link
  double bytes = 0;
};

/// A piece of a flow over a spine.
struct Placed {
  uint32_t flow = 0;
  uint32_t spine = 0;
  double bytes = 0;
};

struct Loads {
  std::vector<double> up, down;  // by Fabric::link: nanoseconds that the link is busy
  double most = 0;               // of any link
  double least_possible = 0;     // no placement of these flows has a lower maximum
};

struct PlacementRules {
  bool planes_may_differ = false;  // pieces of one flow in several planes
};

/// How long each link is busy. kInvalidArgument for a piece over a dead link, pieces that are not
/// all of their flow, or a flow in two planes.
Result<Loads> loads_of(const Fabric& fabric, const std::vector<Flow>& flows,
                       const std::vector<Placed>& placed, const PlacementRules& rules = {});

}  // namespace tutti::paths
