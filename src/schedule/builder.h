// Writes one rank's schedule. Algorithms are functions that call this and nothing else.
//
// Errors: none here; a wrong schedule is the verifier's to refuse. Threads: one builder, one
// thread.
#pragma once

#include <initializer_list>
#include <span>

#include "src/schedule/schedule.h"

namespace tutti::schedule {

/// A source of a MOVE while it is being written. Views the caller's memory until move() returns.
struct MoveSource {
  int peer = -1;  // >= 0: the next message from this rank
  std::span<const Block> blocks;

  static MoveSource message(int peer) { return {peer, {}}; }
  static MoveSource local(std::span<const Block> blocks) { return {-1, blocks}; }
  static MoveSource local(const Block& block) {
    return {-1, {&block, 1}};
  }  // block must outlive move()
};

using StepIndex = uint32_t;

class Builder {
 public:
  explicit Builder(int rank) { schedule_.rank = rank; }

  /// A new scratch block with the size of `like` (an input or output block).
  Block scratch(Block like);

  /// The lane of the steps that follow. Lanes are numbered from 0 without gaps.
  void lane(uint16_t lane) { lane_ = lane; }

  StepIndex send(std::span<const Block> blocks, std::span<const int> peers);
  StepIndex send(Block block, int peer) { return send({&block, 1}, {&peer, 1}); }
  StepIndex send(std::span<const Block> blocks, int peer) { return send(blocks, {&peer, 1}); }
  StepIndex send(Block block, std::span<const int> peers) { return send({&block, 1}, peers); }

  StepIndex move(std::span<const Block> target, std::span<const MoveSource> sources,
                 Fold fold = Fold::kList);
  StepIndex move(Block target, std::span<const MoveSource> sources, Fold fold = Fold::kList) {
    return move({&target, 1}, sources, fold);
  }
  StepIndex copy(Block target, Block source);  // target <- source
  StepIndex receive(Block target, int peer);   // target <- message
  StepIndex receive(std::span<const Block> target, int peer);

  /// Step `later`, the one written last, waits for `earlier`, a step of another lane.
  void after(StepIndex later, StepIndex earlier);

  Schedule finish() &&;

 private:
  uint32_t append(std::span<const Block> blocks);

  Schedule schedule_;
  uint16_t lane_ = 0;
};

}  // namespace tutti::schedule
