// Writes what a rank does in the exchange among the children of a node: the schedule of an
// algorithm without levels, once for each of the rank's teams, step by step.
//
// Threads: one builder, one thread. Errors: none.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/patterns/phases.h"
#include "algorithms/patterns/shares.h"
#include "src/schedule/algorithm.h"
#include "src/schedule/builder.h"

namespace tutti::algorithms::patterns {

class Weaver {
 public:
  using Target = std::function<schedule::Block(uint32_t block)>;

  /// `values`: where the newest value of every block of the buffer is. `target`: where it is to be
  /// written; asked once for each block.
  Weaver(schedule::Builder& builder, std::vector<schedule::Block> values, Target target)
      : builder_(builder),
        values_(std::move(values)),
        is_written_(values_.size(), false),
        target_(std::move(target)) {}

  /// The steps of one exchange; `p` for its algorithm.
  void run(const Phase& phase, const Teams& teams, const schedule::Parameters& p);

  const std::vector<schedule::Block>& values() const { return values_; }

 private:
  using Names = std::vector<uint32_t>;  // blocks of the buffer

  Names named(const schedule::Schedule& schedule, std::span<const schedule::Block> blocks,
              const Teams& teams, const Team& team) const;
  std::vector<schedule::Block> values_of(const Names& names) const;
  void send(const schedule::Schedule& schedule, const schedule::Step& step, const Teams& teams,
            const Team& team);
  void move(const schedule::Schedule& schedule, const schedule::Step& step, const Teams& teams,
            const Team& team);

  schedule::Builder& builder_;
  std::vector<schedule::Block> values_;
  std::vector<bool> is_written_;
  Target target_;
  const schedule::Algorithm* algorithm_ = nullptr;  // that runs
};

}  // namespace tutti::algorithms::patterns
