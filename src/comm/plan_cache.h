// The plans of a communicator's latest calls. A plan is kept in one of a few places of a set, which
// the hash of its key chooses, and the set's least recently used one makes room: as few calls as a
// set has places never evict each other, whatever their keys.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/comm/count_view.h"
#include "src/exec/fast_path.h"
#include "src/plan/match.h"
#include "src/plan/plan.h"
#include "src/trace/recorder.h"

namespace tutti::comm {

/// Everything a plan depends on beyond the rank and the group.
struct PlanKey {
  uint64_t count = 0;  // of a v-collective: of the longest share
  int root = 0;
  uint32_t variant = 0;  // what options change; a number of this rank's own
  schedule::Collective collective = schedule::Collective::kAllReduce;
  types::DataType type = types::DataType::kInt8;
  types::ReduceOp op = types::ReduceOp::kSum;
  plan::Mode mode = plan::Mode::kStaged;
  bool in_place = false;
  bool registered = false;
  bool vectors = false;  // a v-collective's
  bool operator==(const PlanKey&) const = default;
};

inline uint64_t hash_of(const PlanKey& key) {
  const uint64_t kinds =
      static_cast<uint64_t>(key.collective) | static_cast<uint64_t>(key.type) << 8 |
      static_cast<uint64_t>(key.op) << 16 | static_cast<uint64_t>(key.mode) << 24 |
      uint64_t{key.in_place} << 32 | uint64_t{key.registered} << 33 | uint64_t{key.vectors} << 34;
  const uint64_t numbers = static_cast<uint64_t>(key.root) << 32 | key.variant;
  return (key.count * 0x9e3779b97f4a7c15u) ^ (kinds * 0xc2b2ae3d27d4eb4fu) ^
         (numbers * 0x165667b19e3779f9u);
}

struct Prepared {
  PlanKey key;
  plan::Plan plan;
  exec::HostProgram program;  // the plan's
  std::optional<exec::FastPath> fast;
  uint32_t signature = 1;      // equal on ranks of a domain that make the same call; never 0
  uint32_t far_signature = 1;  // equal on all ranks that do
  bool registered = false;
  trace::Label label;                  // what the flight recorder says of it
  diagnosis::DescribedCall described;  // what messages say of it
  // v-collectives: what else the plan depends on.
  KeptCounts counts;
  std::vector<uint64_t> sizes;     // of forwarded blocks, by scratch block
  schedule::CountVectors vectors;  // what the plan's layout views
};

class PlanCache {
 public:
  static constexpr size_t kWays = 4;

  /// The plan for which `fits` holds, now the last used of the set of `hash`; null: there is none.
  template <class Fits>
  const Prepared* find(uint64_t hash, Fits fits) {
    Set& set = sets_[hash >> kShift];
    for (auto way = set.begin(); way != set.end() && *way != nullptr; ++way) {
      if (!fits(**way)) continue;
      std::rotate(set.begin(), way, way + 1);
      return set.front().get();
    }
    return nullptr;
  }

  /// Ends the least recently used plan of a full set.
  const Prepared* insert(uint64_t hash, std::unique_ptr<Prepared> prepared) {
    Set& set = sets_[hash >> kShift];
    set.back() = std::move(prepared);
    std::rotate(set.begin(), set.end() - 1, set.end());
    return set.front().get();
  }

  void clear() {
    for (Set& set : sets_) set = {};
  }

 private:
  using Set = std::array<std::unique_ptr<Prepared>, kWays>;  // the last used first, then empty ones

  static constexpr int kSetBits = 6;
  static constexpr int kShift = 64 - kSetBits;

  std::vector<Set> sets_{size_t{1} << kSetBits};
};

}  // namespace tutti::comm
