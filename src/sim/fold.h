// Which ranks are simulated for which others: equal ones are folded into one.
//
// Ranks may be folded if the partition into classes is equitable: ranks of a class run equal
// programs, the peers that the same micro-operation names are of one class and meet it at the same
// micro-operation of theirs, and the links above are of one class too, that is, crossed by as many
// messages of each kind. Then, by induction over the events, all ranks of a class do the same at
// the same time, because max-min fair rates are unique and so equal for equal flows. The coarsest
// such partition is found by colour refinement over all programs and the whole tree.
//
// That takes the programs of all ranks. Where those are too many, the only partition that is tried
// is the one with one class of ranks and one class of nodes for each level. The tree is compared in
// whole; of the programs those of one rank, of all its peers, of ranks along each level and of
// others drawn at random are compared, and Cast::checked says how many. Any difference refuses the
// fold.
//
// Sources: McKay, Practical graph isomorphism, 1981 (colour refinement). Threads: pure, and equal
// for equal arguments. Errors: what lowering says; a fold that was required and is refused.
#pragma once

#include <cstdint>
#include <vector>

#include "src/sim/program.h"

namespace tutti::sim {

enum class Folding : uint8_t {
  kNever,    // every rank is simulated
  kIfEqual,  // equal ranks are folded where that is proved; else every rank is simulated
  kSampled,  // as kIfEqual, and for groups too large for a proof by the sample above
};

/// A rank that is slow, or ends.
struct RankFault {
  int rank = 0;
  double factor = 1;  // its core needs so many times as long
  Time dead_from = kNever;
};

/// A rank that is simulated for `size` ranks.
struct Player {
  int rank = 0;
  uint32_t size = 1;
  plan::Plan plan;
  /// By op of Plan::ops: for a posted receive, the sender's op that it meets, of Plan::ops, too.
  std::vector<uint32_t> meets;
};

struct Cast {
  std::vector<Player> actors;
  std::vector<uint32_t> actor_of;    // by rank
  std::vector<uint32_t> class_of;    // by link of the network
  std::vector<uint32_t> class_size;  // links of a class
  std::vector<uint32_t> any_link;    // one of each class
  uint32_t checked = 0;              // ranks whose programs were compared
  bool is_proved = true;             // that is all of them, or nothing is folded
  std::string refused;               // why ranks that might be equal are not folded; empty: no

  bool is_folded() const { return actors.size() < actor_of.size(); }
};

struct FoldLimits {
  // Micro-operations of all programs together: more are not compared one by one, and no group of
  // more is simulated rank by rank.
  uint64_t proved = 12'000'000;
  uint64_t sampled = 2'000'000;  // and as many ranks: matching looks at each of them
  // Of the ranks that are simulated, however many they stand for.
  uint64_t simulated = ~uint64_t{0};
};

Result<Cast> cast(const Job& job, const Network& network, const std::vector<RankFault>& faults,
                  Folding folding, const FoldLimits& limits = {});

}  // namespace tutti::sim
