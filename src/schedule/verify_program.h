// All ranks' schedules, checked to be well formed: every offset, block, peer, lane and `after` is
// in range, every list pairs up, nothing is read or written that must not be. The passes after
// this one index freely.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/schedule.h"
#include "src/schedule/verify.h"
#include "src/schedule/verify_geometry.h"

namespace tutti::schedule::verifier {

struct StepRef {
  int rank = 0;
  uint32_t step = 0;
};

/// Where the blocks of one rank are. Its memory is numbered in atoms: first its user buffers, then
/// its scratch blocks. Views the Program.
class RankMemory {
 public:
  RankMemory(const Geometry& geometry, std::span<const Block> scratch,
             std::span<const uint32_t> scratch_first, uint32_t input_begin, uint32_t output_begin)
      : geometry_(geometry),
        scratch_(scratch),
        scratch_first_(scratch_first),
        input_begin_(input_begin),
        output_begin_(output_begin) {}

  AtomRange region(Block block) const {
    if (block.space() == Space::kScratch) {
      AtomRange region = geometry_.region(scratch_[block.index()]);
      region.first = scratch_first_[block.index()];
      return region;
    }
    AtomRange region = geometry_.region(block);
    region.first += block.space() == Space::kInput ? input_begin_ : output_begin_;
    return region;
  }

  uint64_t width(Block block) const {  // in units of 1/geometry().unit()
    const bool scratch = block.space() == Space::kScratch;
    return geometry_.width(scratch ? scratch_[block.index()] : block);
  }

 private:
  const Geometry& geometry_;
  std::span<const Block> scratch_;
  std::span<const uint32_t> scratch_first_;
  uint32_t input_begin_;
  uint32_t output_begin_;
};

class Program {
 public:
  /// Views shape and schedules: they must outlive it.
  static Result<Program> of(const Shape& shape, std::span<const Schedule> schedules,
                            Placement placement);

  const Shape& shape() const { return *shape_; }
  const Geometry& geometry() const { return geometry_; }
  Placement placement() const { return placement_; }
  int ranks() const { return shape_->ranks; }
  std::span<const Schedule> schedules() const { return schedules_; }
  const Schedule& schedule(int rank) const { return schedules_[static_cast<size_t>(rank)]; }
  const Step& step(StepRef ref) const { return schedule(ref.rank).steps[ref.step]; }

  uint32_t atoms(int rank) const { return atoms_[static_cast<size_t>(rank)]; }
  RankMemory memory(int rank) const {
    return {geometry_, schedule(rank).scratch, scratch_first_[static_cast<size_t>(rank)],
            input_begin(rank), output_begin(rank)};
  }
  uint32_t input_begin(int rank) const { return static_cast<uint32_t>(rank) * input_stride_; }
  uint32_t output_begin(int rank) const {
    return output_base_ + static_cast<uint32_t>(rank) * output_stride_;
  }
  bool has_input(int rank) const { return tutti::schedule::has_input(*shape_, rank); }
  bool has_output(int rank) const { return tutti::schedule::has_output(*shape_, rank); }
  /// In place, a block of input that is also output.
  bool aliases_output(int rank, const AtomRange& input) const;

  /// Steps of all ranks are numbered through; rank r's begin here.
  uint32_t first_step(int rank) const { return first_step_[static_cast<size_t>(rank)]; }
  uint32_t number(StepRef ref) const { return first_step(ref.rank) + ref.step; }
  uint32_t total_steps() const { return first_step_.back(); }

  /// A refusal that quotes the step: "rank 1, step 4 (send output[0] -> 2): what".
  std::string where(StepRef ref) const;
  Status refuse(StepRef ref, const std::string& what) const;

 private:
  const Shape* shape_ = nullptr;
  std::span<const Schedule> schedules_;
  Placement placement_ = Placement::kSeparate;
  Geometry geometry_;
  uint32_t input_stride_ = 0;  // in place: a rank's input lies in its output, or the reverse
  uint32_t output_stride_ = 0;
  uint32_t output_base_ = 0;
  uint32_t user_atoms_ = 0;                           // of input and output together
  std::vector<uint32_t> atoms_;                       // per rank
  std::vector<std::vector<uint32_t>> scratch_first_;  // per rank, per scratch block
  std::vector<uint32_t> first_step_;                  // per rank, and the end
};

}  // namespace tutti::schedule::verifier
