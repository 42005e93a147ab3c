// A source of levels says of a network more than its transports do: which hosts are of one rack,
// which racks of one site, and how fast the links between them are.
//
// A rank asks each source for a card, which travels with the rank's own to all others; then it asks
// for levels, by the cards of all. So what a source says is equal on all ranks if it follows from
// its arguments, and where the cards contradict each other it says so. A source is a file in
// src/comm/level_sources and a line of src/registry/level_sources.inc.
//
// Threads: read by any. Errors: of make(): the environment names what cannot be used. Of levels():
// kInvalidUsage where ranks or hosts do not fit what it knows; no communicator is made then.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/group/view.h"

namespace tutti::comm {

/// All that the ranks have said, by rank.
struct LevelFacts {
  int rank = 0;                          // that asks
  std::span<const std::string> hosts;    // TUTTI_HOST_ID, or the name that the host has
  std::span<const std::string> cards;    // of this source
  std::span<const uint32_t> domains;     // ranks with equal ones share memory
  std::function<std::string(int)> name;  // of a rank, for messages
};

/// Levels that are added to those of a group.
struct DescribedLevels {
  std::vector<double> uplinks;  // group::Level::uplinks of the domains; empty: nothing is known
  // By which a network connects domains, from the innermost, each with its node of each rank. Its
  // reach and transport follow from the network that it lies in.
  std::vector<group::Level> levels;
};

class LevelSource {
 public:
  virtual ~LevelSource() = default;
  /// This rank tells it to the others; "": it has nothing to tell.
  virtual std::string card() const = 0;
  /// Also where no rank has told anything; then there are none.
  virtual Result<DescribedLevels> levels(const LevelFacts& facts) const = 0;
};

struct LevelSourceEntry {
  const char* name;  // for messages
  Result<std::unique_ptr<LevelSource>> (*make)(const Config& config);
};

}  // namespace tutti::comm
