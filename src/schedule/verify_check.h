// The checks of one step by itself, in the order of rising trust: offsets, then blocks, then
// pairing.
#pragma once

#include <cstdint>
#include <vector>

#include "src/schedule/verify_program.h"

namespace tutti::schedule::verifier {

/// Before a Program exists: the shape, and what a schedule says of itself and its scratch.
Status check_shape(const Shape& shape);
Status check_header(const Shape& shape, const Schedule& schedule, int rank);

/// Checks the steps of one rank after the other.
class StepChecker {
 public:
  explicit StepChecker(const Program& program) : program_(program) {}
  Status check(StepRef ref);

 private:
  Status check_offsets(StepRef ref);
  Status check_afters(StepRef ref) const;
  Status check_send(StepRef ref);
  Status check_move(StepRef ref);
  Status check_blocks(StepRef ref, std::span<const Block> blocks, bool written);
  Status check_input(StepRef ref, Block block, const AtomRange& region, bool written) const;
  Status check_overlap(StepRef ref);
  Status spend(StepRef ref, uint64_t work);

  const Program& program_;
  uint64_t work_ = 0;
  std::vector<uint32_t> marks_;  // per atom, or per peer: where it was seen, if since `epoch_`
  std::vector<uint32_t> positions_;
  uint32_t epoch_ = 0;
};

}  // namespace tutti::schedule::verifier
