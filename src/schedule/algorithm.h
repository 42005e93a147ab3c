// To the rest of the library an algorithm is one value of type Algorithm, named in one line of
// src/registry. Verifier, selection, benchmarks and docs iterate over those values.
//
// Threads: the functions are pure: same arguments, same result, no state.
// Errors:  none; they serve every number of ranks and root, and up to max_lanes lanes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "src/schedule/layout.h"
#include "src/schedule/node_tree.h"
#include "src/schedule/schedule.h"

namespace tutti::schedule {

/// Everything a schedule may depend on.
struct Parameters {
  int ranks = 1;
  int root = 0;
  // Copies of the pattern side by side, each on its share of the data; or its phases, or levels
  // (Algorithm::lane_levels).
  uint16_t lanes = 1;
  // The order of folds with more than two sources. Every rank of a call has the same; kTree where
  // the call must be deterministic, kList (one rounding) otherwise.
  Fold fold = Fold::kList;
  // Where the ranks live; null: all on one node. Only algorithms that cross levels look at it.
  NodeTreePointer tree = nullptr;
};

/// For Algorithm::canonical.
inline bool always(const Parameters&) { return true; }
inline bool never(const Parameters&) { return false; }

/// The cost of one call, as the algorithm's author declares it; the verifier counts and compares.
/// Bytes are in units of one `count` (the argument of the call), so 2*(n-1)/n is a ring's
/// all-reduce.
struct Cost {
  uint32_t depth = 0;     // longest chain of messages that wait for each other
  uint32_t messages = 0;  // sent, or received, by the busiest rank; a multicast counts per receiver
  Fraction bytes;         // likewise; num may exceed den
  Fraction published;     // sent by the busiest rank, with a multicast counted once
  Fraction moved{};       // published and received by one rank: what its core copies
  Fraction work{};        // published and received by all ranks: what the cores of one host copy
  Fraction scratch;       // of the rank that needs most
  uint32_t widest = 2;    // sources of the widest MOVE of any rank, at least 2: plans hold so many
};

/// Bytes that cross the cut of a node: in messages of ranks below it to others, and the reverse. In
/// units of one `count`.
struct CutLoad {
  Fraction out;
  Fraction in;
  bool operator==(const CutLoad&) const = default;
};

/// The load of one call on each level of Parameters::tree.
struct LevelLoads {
  std::vector<uint32_t> depth;             // messages of the level in the chain with most of them
  std::vector<std::vector<CutLoad>> cuts;  // [level][node]
  bool operator==(const LevelLoads&) const = default;
};

struct Algorithm {
  Collective collective = Collective::kBarrier;
  std::string_view name;     // unique within the collective: "ring"
  std::string_view summary;  // one line: what it does
  std::string_view wins;     // one line: when to use it
  std::string_view source;   // paper or origin
  // The name that NCCL_ALGO has for NCCL's algorithm of this idea for this collective: "Ring";
  // empty: there is none. One algorithm of a collective has a name.
  std::string_view nccl_name = {};
  uint16_t max_lanes = 1;
  bool in_place = true;  // false: declared unsupported, the caller's input must not be the output
  // Whether it reduces in the canonical order with these parameters and tree folds. True of all
  // numbers of ranks where it depends on nothing but them; the verifier compares.
  bool (*canonical)(const Parameters&) = never;
  // For v-collectives, as Verdict has them for any number of ranks; a test compares.
  bool forwards = false;            // all_to_all: private counts need a size round
  bool needs_equal_counts = false;  // no v-collective runs it
  Shape (*shape)(const Parameters&) = nullptr;
  Schedule (*schedule)(const Parameters&, int rank) = nullptr;  // O(own steps)
  Cost (*cost)(const Parameters&) = nullptr;
  // Of one whose lanes are its phases, or have the messages of some levels, each for all of the
  // data: the innermost level of Parameters::tree that a message of each lane belongs to. Steps
  // come `after` steps of lanes before their own, and only those, and as many lanes as phases are
  // the most that are used.
  std::vector<size_t> (*lane_levels)(const Parameters&) = nullptr;
  // Of one that crosses levels; the verifier compares. Null: it promises nothing.
  LevelLoads (*loads)(const Parameters&) = nullptr;

  /// Whether its schedules depend on Parameters::tree.
  bool follows_levels() const { return loads != nullptr || lane_levels != nullptr; }
};

}  // namespace tutti::schedule
