// The prices of candidates in a group: that of each level by the model of its links, from what is
// counted once for each algorithm and parameters.
//
// A plan does a call in slices (Slicing). Between hosts every slice pays the latencies of its
// messages again: a rank goes on to the next one when it has all that it waits for in this one, and
// a message goes when the receiver has said that there is room for it, so in one round trip no more
// moves than a slice and what may go unasked. Where every rank has a host of its own, slices are as
// long as that asks for and their memory allows; where every message lands beside the buffers, too,
// as far as what is near can be staged. Where a collective has a root, messages flow one
// way: the ranks are in different slices, and only the room is waited for. Where lanes are phases,
// slices of different levels go on at the same time, and lanes between hosts have slices of their
// own, as many as cost the least.
//
// Streams of devices do slices in turn: what is copied within devices is hidden behind links that
// are busy, or the other way round, but for a slice at the begin or the end.
//
// A call waits for its busiest rank (busiest.h), whose levels take their turns: a level takes what
// the rank's messages take, and no less than the link of its node that carries them: all that
// leaves the node takes that link.
//
// Owns: what it counted. Threads: one at a time. Errors: none.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "src/group/view.h"
#include "src/select/link_model.h"
#include "src/select/priced_level.h"

namespace tutti::select {

/// How plans cut calls; by default they do not. Equal on all ranks.
struct Slicing {
  double frame_bytes = 1e300;   // what a rank publishes in a slice, at most
  double stream_bytes = 1e300;  // of one block's piece in a message between hosts
  double memory_bytes = 1e300;  // what long slices may take beside the buffers; 0: there are none
  uint32_t turns = 1;           // plan::Tuning::turns: so many slices wait at the same time
  bool lands = false;           // plan::Tuning::lands
  // Of devices, whose streams do a call's slices in turn: copies within a device go on beside what
  // crosses links. Calls of more than so many slices have the longer frames.
  bool overlaps = false;
  double most_short_slices = 1e300;
  double spanning_frame_bytes = 1e300;
};

/// The price of one call.
struct Price {
  double ns = 0;
  uint64_t far_slices = 0;  // plan::BindRequest::far_slices: of lanes between hosts
};

/// All that is known of an algorithm with certain parameters.
struct Usage {
  schedule::Cost cost;
  bool lands = false;               // messages between hosts may arrive beside the buffers
  bool flows_one_way = false;       // it has a root
  std::vector<size_t> lane_levels;  // Algorithm::lane_levels, of several lanes
  uint32_t blocks = 0;              // of one count of elements
  std::vector<LevelUse> levels;     // of the group's tree, as many as are priced
};

/// The schedules of all ranks are counted in groups of so many ranks, and in larger ones if they
/// have so many steps and words together; else a sample is looked at.
struct Effort {
  int ranks = 64;
  uint64_t words = 1 << 18;
};

class LevelPrices {
 public:
  /// Of one kind of link, whatever the group.
  explicit LevelPrices(const LinkModel& link) : levels_{PricedLevel{link}} {}
  /// `cores`: of every host.
  LevelPrices(group::GroupPointer group, int cores, const Model& model = {}, Effort effort = {});

  /// The tree that parameters name.
  const schedule::NodeTreePointer& tree() const { return tree_; }
  /// The costs of the algorithm, asked for once, since it may have to be counted.
  const Usage& usage_of(const schedule::Algorithm& algorithm,
                        const schedule::Parameters& parameters);
  void set_slicing(const Slicing& slicing) { slicing_ = slicing; }
  /// Ranks of a host reach each other by such a link, whatever the model says.
  void set_near_link(const LinkModel& link) {
    for (PricedLevel& level : levels_) {
      if (level.maps) level.link = link;
    }
  }
  /// Messages between hosts are those of devices.
  void cross_hosts(const DeviceCosts& costs) {
    for (PricedLevel& level : levels_) {
      if (!level.maps) level.link = through_host(level.link, costs);
    }
  }
  /// Of a plan whose lanes all have short slices.
  uint64_t slices_of(const Usage& usage, double count_bytes) const;
  /// `wires`: by level, where some encode their messages; else empty.
  Price price_of(const Usage& usage, double count_bytes,
                 std::span<const WirePrice> wires = {}) const;
  /// Nanoseconds of one call.
  double price(const Usage& usage, double count_bytes) const {
    return price_of(usage, count_bytes).ns;
  }
  /// A call of a group of one host whose ranks have measured their copies, in both ways; nothing
  /// where they have not, or have not measured single copies.
  std::optional<CopyChoice> copies_of(const schedule::Algorithm& algorithm,
                                      const schedule::Parameters& parameters, double count_bytes);
  const std::vector<PricedLevel>& levels() const { return levels_; }
  /// The kind of link that the outermost nodes have.
  const LinkModel& slowest() const { return levels_.back().link; }

 private:
  using Key = std::tuple<schedule::Collective, std::string_view, int, int, int, schedule::Fold,
                         const schedule::NodeTree*>;

  static Key key_of(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters) {
    return {algorithm.collective, algorithm.name,  parameters.ranks,     parameters.root,
            parameters.lanes,     parameters.fold, parameters.tree.get()};
  }
  const CopyLoad& load_of(const schedule::Algorithm& algorithm,
                          const schedule::Parameters& parameters);
  bool is_counted(const schedule::Algorithm& algorithm,
                  const schedule::Parameters& parameters) const;
  Usage use_of(const schedule::Algorithm& algorithm, const schedule::Parameters& parameters) const;
  const PricedLevel& level_of(const Usage& usage, size_t index) const;
  WirePrice wire_of(const Usage& usage, size_t index, std::span<const WirePrice> wires) const;
  double price_in_slices(const Usage& usage, double count_bytes, uint64_t slices,
                         std::span<const WirePrice> wires) const;
  double price_overlapping(const Usage& usage, double count_bytes,
                           std::span<const WirePrice> wires) const;
  Price price_long(const Usage& usage, double count_bytes, uint64_t slices,
                   std::span<const WirePrice> wires) const;
  double kept_bytes(const Usage& usage) const;
  double staged_slices(const Usage& usage, double count_bytes) const;
  double price_in_lanes(const Usage& usage, double count_bytes, uint64_t slices,
                        std::span<const WirePrice> wires) const;
  size_t node_below(size_t level, int rank) const;
  std::vector<double> links_below(
      size_t level, const std::vector<std::vector<schedule::RankTraffic>>& traffic) const;
  std::vector<LevelUse> count(const schedule::Algorithm& algorithm,
                              const schedule::Parameters& parameters) const;

  group::GroupPointer group_;  // null: of one kind of link
  schedule::NodeTreePointer tree_;
  std::vector<PricedLevel> levels_;  // of the tree
  Effort effort_;
  Slicing slicing_;
  std::map<Key, Usage> known_;
  int cores_ = 1;
  std::map<Key, CopyLoad> loads_;
};

}  // namespace tutti::select
