// The cluster that TUTTI_TOPOLOGY describes, agreed on by the ranks of a group, and the levels that
// it adds to theirs.
//
// Every rank reads its own file. The cards hold a fingerprint of what each file says, so ranks
// whose files differ get an error that names both, and the levels are equal on all ranks: they
// follow from equal files and from the names of hosts that all ranks know.
//
// Threads: a value, read by any. Errors: kInvalidArgument for the file (as FILE:LINE: why),
// kInvalidUsage where ranks or hosts do not fit it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/comm/level_source.h"
#include "src/group/view.h"
#include "src/topology/topology.h"

namespace tutti::comm {

/// A rank says this of its file.
struct ClusterCard {
  std::string file;
  std::string fingerprint;  // empty: TUTTI_TOPOLOGY is not set
  bool operator==(const ClusterCard&) const = default;
};

std::string to_text(const ClusterCard& card);
/// Read from peers: a text that is none gives no file.
ClusterCard read_cluster_card(std::string_view text);

class Cluster {
 public:
  /// Without TUTTI_TOPOLOGY an empty one, whose group has no levels but those of transports.
  static Result<Cluster> read(const Config& config);

  const ClusterCard& card() const { return card_; }

  /// Whether the peer's file says the same as mine. `mine` and `theirs` name the ranks.
  Status agree(const ClusterCard& peer, const std::string& mine, const std::string& theirs) const;

  /// A level is left out where it unites nothing that the one inside does not: that of hosts where
  /// each is one domain. Bytes that leave a node inside then take the narrower of both uplinks.
  /// `names`: of each rank's host, as the file may have it; `domains`: the number of each rank's
  /// domain.
  Result<DescribedLevels> levels(std::span<const std::string> names,
                                 std::span<const uint32_t> domains) const;

 private:
  Result<std::vector<uint32_t>> hosts_of(std::span<const std::string> names) const;
  group::Level level_of(size_t index, std::span<const uint32_t> hosts) const;

  ClusterCard card_;
  std::optional<topology::Topology> topology_;
};

}  // namespace tutti::comm
