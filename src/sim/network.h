// The links between simulated ranks: a tree of levels, level 0 the innermost, as in
// group::GroupView.
//
// Each rank has a port to its node of level 0, and each node an uplink to its parent. Messages
// of two ranks take the port and the uplinks below the innermost level that holds both, up on
// the side of the source and down on that of the target. Each direction is a link of its own.
// Within a level that maps memory no link is taken: a core of one of the two ranks copies. The
// copies of a host share its medium, a memory bus, where it has one.
//
// Threads: a value, read-only while it is simulated on. Units: nanoseconds, bytes per nanosecond
// (GB/s); a capacity of 0 says that nothing is bounded there. Errors: make() and fail() say what
// does not fit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/group/view.h"
#include "src/sim/time.h"

namespace tutti::sim {

struct TreeLevel {
  std::string name;
  double latency_ns = 0;  // one way, between two ranks whose innermost common node is of it
  bool maps = false;      // its ranks map each other's memory; holds for all levels below, too
  std::vector<uint32_t> nodes;     // by rank, from 0 in the order of their first ranks
  std::vector<double> uplinks;     // by node, in each direction; empty: nothing is bounded
  double shared_bytes_per_ns = 0;  // of all copies in a node, where `maps`
};

/// Something is wrong with a port or uplink, in both directions.
struct LinkFault {
  size_t level = 0;  // of the node that it joins to its parent, counted from 1; 0: a rank's port
  uint32_t node = 0;
  double factor = 1;  // of its capacity
  double delay_ns = 0;
  double loss = 0;  // of packets
  Time dead_from = kNever;
};

enum class LinkWay : uint8_t { kUp, kDown, kShared };

/// How a message finds its way where an uplink is several links, each with its share of the
/// capacity.
enum class PathRule : uint8_t {
  kSprayed,  // by all of them at once, packet by packet: as one link
  kHashed,   // a connection by the one that a hash of its two ranks picks, as switches do it
  kPlanned,  // a connection by one of its source's, which are spread evenly (src/paths)
};

/// Picks the path of a connection at a level, between two nodes there.
using PathPicker = std::function<uint32_t(size_t level, uint32_t source, uint32_t target)>;

/// One direction of a port or uplink, or a medium.
struct NetworkLink {
  LinkWay way = LinkWay::kUp;
  uint8_t level = 0;  // of the node that owns it, counted from 1; 0: it is a rank's port
  uint32_t node = 0;
  uint32_t path = 0;  // of the links that are the uplink together
  double bytes_per_ns = 0;
  double delay_ns = 0;
  double loss = 0;
  Time dead_from = kNever;
};

class Network {
 public:
  static constexpr size_t kMostLevels = 16;

  /// `ports`: by rank, as TreeLevel::uplinks. The last level has one node.
  static Result<Network> make(std::vector<TreeLevel> levels, std::vector<double> ports);

  int ranks() const { return group_->ranks(); }
  const group::GroupPointer& group() const { return group_; }
  size_t levels() const { return levels_.size(); }
  const TreeLevel& level(size_t index) const { return levels_[index]; }
  uint32_t node_of(size_t level, int rank) const { return group_->node_of(level, rank); }

  /// The links that a message takes, and the level at which it turns. Without a picker it takes the
  /// first path everywhere.
  size_t route(int source, int target, const std::function<void(uint32_t)>& link,
               const PathPicker& pick = {}) const;
  /// One way, with the delays of its links.
  double latency_ns(int source, int target) const;
  /// The medium that the copies of a rank share with others.
  bool has_medium(int rank) const { return medium_of(rank) != kNone; }
  uint32_t medium_of(int rank) const;

  uint32_t links() const { return static_cast<uint32_t>(links_.size()); }
  const NetworkLink& link(uint32_t id) const { return links_[id]; }
  /// The port of a rank (level 0) or the uplink of a node of level `level` - 1.
  uint32_t link_id(LinkWay way, size_t level, uint32_t node, uint32_t path = 0) const;
  /// "up from rack 3", "up from rack 3 by path 2", "down to rank 7", "memory of host 2".
  std::string describe(uint32_t link) const;
  /// "rank", or the name of the level below.
  std::string_view owner_name(size_t level) const {
    return level == 0 ? std::string_view("rank") : std::string_view(levels_[level - 1].name);
  }

  /// A fault of a port or uplink. An unbounded one can be dead or late, but not slow.
  Status fail(const LinkFault& fault);

  /// Makes the uplink of every node, but no rank's port, several links that share its capacity
  /// evenly. kInvalidUsage behind fail() and where it was called before.
  Status divide_uplinks(uint32_t paths, PathRule rule);
  uint32_t paths() const { return paths_; }
  PathRule path_rule() const { return path_rule_; }

  /// Whether all links of a level are alike as far as they were described.
  bool is_sound() const { return sound_; }

  static constexpr uint32_t kNone = ~0u;

 private:
  Network() = default;
  void add_links(size_t level, uint32_t count, const std::vector<double>& capacities);
  uint32_t owner(size_t level, int rank) const {
    return level == 0 ? static_cast<uint32_t>(rank) : node_of(level - 1, rank);
  }

  group::GroupPointer group_;
  std::vector<TreeLevel> levels_;
  std::vector<NetworkLink> links_;
  std::vector<uint32_t> first_up_, first_down_;  // by level
  std::vector<uint32_t> first_shared_;           // by level; kNone: it shares nothing
  size_t host_level_ = kMostLevels;              // the outermost that maps
  uint32_t paths_ = 1;                           // of an uplink
  PathRule path_rule_ = PathRule::kSprayed;
  bool sound_ = true;
};

/// Equal nodes all the way down, for questions about clusters that are not here. From the
/// innermost level; `children` are ranks there.
struct UniformLevel {
  std::string name;
  uint32_t children = 1;
  double latency_ns = 0;
  double port_bytes_per_ns = 0;  // of the link of each child
  bool maps = false;
  double shared_bytes_per_ns = 0;
};
Result<Network> uniform_network(const std::vector<UniformLevel>& levels);

}  // namespace tutti::sim
