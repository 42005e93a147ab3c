// Flows over links that they share: every flow gets its max-min fair rate, as long-lived TCP
// connections with equal round trips do in the mean.
//
// A flow may stand for several equal ones: `times` says how many of them cross one link. The
// arithmetic is the same whether equal flows are added one by one or as one that counts for
// several, bit by bit: rates are quotients of a link's capacity left and a whole number, and the
// flows that a round of the water filling settles are subtracted at once. That is what lets equal
// ranks be folded (fold.h).
//
// Sources: Bertsekas, Gallager, Data Networks, 6.5.2 (max-min fairness by water filling). Threads:
// one. Units: bytes, bytes per nanosecond, Time. Errors: none.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/sim/time.h"

namespace tutti::sim {

struct LinkUse {
  uint32_t link = 0;
  uint32_t times = 1;  // flows like this one that cross the link
};

class Fluid {
 public:
  /// By link; 0: it is dead.
  explicit Fluid(std::vector<double> capacities);

  /// A flow from now on. The path stays where it is until the flow is removed; a flow without links
  /// is bounded by nothing. settle() then says when it is due.
  uint32_t add(std::span<const LinkUse> path, double bytes, Time now);
  void remove(uint32_t flow);
  /// A flow is due when so many bytes of it are left.
  void set_stop(uint32_t flow, double left);
  double left(uint32_t flow, Time now) const;
  uint32_t add_link(double capacity);
  void set_capacity(uint32_t link, double capacity);
  double capacity(uint32_t link) const { return links_[link].capacity; }

  /// A flow and when it reaches its stop, unless rates change before: then version() will differ.
  struct Due {
    Time time = 0;
    uint32_t flow = 0;
    uint32_t version = 0;
  };
  /// Gives flows their rates after additions, removals and changes, and says anew of each flow that
  /// these concern when it is due. The span is valid until the next call of anything.
  std::span<const Due> settle(Time now);
  uint32_t version(uint32_t flow) const { return flows_[flow].version; }

 private:
  struct FlowUse {
    uint32_t flow;
    uint32_t times;
  };
  struct FluidLink {
    double capacity = 0;
    std::vector<FlowUse> flows;
    bool dirty = false;
    // While rates are computed.
    bool collected = false;
    double rest = 0;
    uint64_t open = 0;     // flows without a rate
    uint64_t settled = 0;  // in this round
  };
  struct FluidFlow {
    std::span<const LinkUse> path;
    double bytes_left = 0;  // at `since`
    double stop = 0;
    double rate = 0;
    Time since = 0;
    uint32_t version = 0;
    bool alive = false;
    bool collected = false;
    bool has_rate = false;
    bool dirty = false;
    double new_rate = 0;
  };

  void mark(uint32_t flow);
  void mark_link(uint32_t link);
  void collect();
  void collect_link(uint32_t link);
  void fill();
  double least_share() const;
  void settle_flows_of(FluidLink& link, double share);
  void apply(Time now);

  std::vector<FluidLink> links_;
  std::vector<FluidFlow> flows_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> dirty_links_, dirty_flows_;
  std::vector<uint32_t> part_links_, part_flows_;  // what the changes concern
  std::vector<Due> due_;
};

}  // namespace tutti::sim
