// State of a training, in shards over its ranks, that survives ranks and follows them.
//
// Each rank holds a share of the elements (parameters with their moments, say), and a copy of its
// partner's share. A step works on a new version; the old one stays until the step counts:
//
//   begin()      the state behind the last committed step, spread over the members of now
//   ...          the step changes local()
//   end()        a copy of the new version goes to the partner's memory, with digest and step
//   commit       StepGroup::commit(); if it says again: begin() once more, from the old version
//   committed()  the new version is the state
//
// After an edit begin() moves what has to move, and nothing else: of a rank that died the share
// comes from its partner's copy, a newcomer gets a fair part of everybody's. So state of a step
// that does not count is in nobody's, whenever somebody dies. If a rank and its partner die in one
// step, their share is lost.
//
// Paper: ElasWave (arXiv:2510.00606): exact are interleaved shards and snapshots in a partner's
// memory; the versions, and that a commit decides, are ours.
//
// Memory:   of the host: four shares a rank, two versions of its own and two of its partner's.
// Units:    elements of any size.
// Ordering: begin(), end() and construction are collective over the group's members. All ranks give
//           equal specs.
// Threads:  one at a time.
// Errors:   throws Error. kCommunication of a rank that died: commit the step as not worked.
//           kInfeasible: a share is lost, or the copy has another step or digest; begin from a
//           checkpoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tutti/runtime/sharding.h"
#include "tutti/runtime/step_group.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

struct SurvivingStateSpec {
  int64_t elements = 0;
  Bytes element{4};
  int64_t stripe = 1024;  // elements that stay together; shares of founders are striped
  int partner = 1;        // so many ranks on is the partner, best on another host
  /// The state before the first step: a pure function of elements' numbers.
  std::function<void(int64_t begin, int64_t end, std::byte* elements)> initial;
};

struct StateCounters {
  int64_t moves = 0;     // times that shards went to other ranks
  Bytes moved{0};        // to this rank by these
  Bytes from_copies{0};  // of these, from the copy of a rank that died
  Bytes copied{0};       // of this rank's share, to its partner
};

class TUTTI_RUNTIME_API SurvivingState {
 public:
  SurvivingState(StepGroup& group, SurvivingStateSpec spec);

  void begin();
  void end();
  void committed();

  /// Between begin() and commit: who holds what, by rank of now.
  const Sharding& sharding() const { return next_.sharding; }
  /// This rank's elements, its shards one behind the other.
  std::span<std::byte> local() { return next_.own; }
  /// All elements, gathered from everybody's shards as they are now. Collective.
  void gather(std::span<std::byte> all);

  /// The copy of the share of the rank whose partner this one is, as of the last committed step.
  std::span<const std::byte> copy() const { return present_.copy.bytes; }

  const StateCounters& counters() const { return counters_; }

 private:
  struct PartnerCopy {
    tuttiMemberId owner{};
    int64_t step = -1;
    uint64_t digest = 0;
    std::vector<std::byte> bytes;
  };
  struct Version {
    std::vector<tuttiMemberId> members;  // by rank
    Sharding sharding;
    int64_t step = -1;
    std::vector<std::byte> own;
    PartnerCopy copy;
  };

  void share_version();
  void take_version(std::span<const int64_t> said);
  std::vector<int64_t> say_version() const;
  void move_shards();
  int distance(int ranks) const;
  std::vector<int> heirs() const;
  std::vector<std::byte> source(const Sharding& held, std::span<const int> origin);
  const PartnerCopy& checked_copy(int old_rank) const;
  int64_t bytes(int64_t elements) const { return elements * spec_.element.value; }

  StepGroup& group_;
  SurvivingStateSpec spec_;
  Version present_;  // of the last committed step
  Version next_;     // of the step that runs
  bool has_version_ = false;
  StateCounters counters_;
};

}  // namespace tutti::runtime
