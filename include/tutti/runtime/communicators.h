// A cache of communicators: one is made for a set of ranks when it is first asked for, and kept.
//
// Owns:     the communicators it made, until it is destroyed. The parent stays the caller's and
//           must live as long.
// Ordering: every rank of the parent asks for the same partitions in the same order, whatever its
//           own group, since a call may be collective over the parent. Every rank knows what all
//           ranks have made, so it computes which calls are, without asking.
// Threads:  one at a time; the parent takes no other call meanwhile.
// Errors:   throws Error for ranks outside of the parent or in two groups of one partition.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tutti/runtime/mesh.h"

namespace tutti::runtime {

class TUTTI_RUNTIME_API Communicators {
 public:
  /// `most_ctas`: of the kernels that its communicators run on devices, as tuttiConfig_t has it; 0:
  /// as the process says.
  explicit Communicators(tuttiComm_t parent, int most_ctas = 0);
  ~Communicators();
  Communicators(const Communicators&) = delete;
  Communicators& operator=(const Communicators&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// The communicator of this rank's group among disjoint ones, null where it is in none. A rank's
  /// number in it is its place in the rank set.
  tuttiComm_t of(std::span<const RankSet> disjoint);
  /// The group of these axes that this rank is in.
  tuttiComm_t of(const Mesh& mesh, std::span<const std::string> axes);
  /// Does the same as of(), but makes a new communicator each time: two timelines' channels over
  /// the same ranks stay apart.
  tuttiComm_t make_own(std::span<const RankSet> disjoint);

  /// How many times ranks met to make communicators.
  int splits() const { return splits_; }

 private:
  void check(std::span<const RankSet> disjoint) const;
  tuttiComm_t split(std::span<const RankSet> disjoint, const std::set<RankSet>& without);

  tuttiComm_t parent_;
  int rank_ = 0;
  int ranks_ = 0;
  uint32_t epoch_ = 0;
  int splits_ = 0;
  int most_ctas_ = 0;
  std::set<RankSet> known_;              // by any ranks, in this communicator's history
  std::map<RankSet, tuttiComm_t> mine_;  // of these, those that this rank is in
  std::vector<tuttiComm_t> made_;
};

}  // namespace tutti::runtime
