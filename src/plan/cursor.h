// Where a rank stands in its rings, cells and counters: the arithmetic of a plan, without control
// and without memory.
//
// Every rank of a domain runs the same plans in the same order, so every rank computes the same
// positions and no rank sends one. A ring is a few regions. Frames are taken one after the other
// within a region; the move to the next region is the only moment at which a writer must know that
// all readers have passed what lay there ("credit"). A frame that is longer than a region spans
// several.
//
// Threads: values.
// Units:   bytes, but for RingCursor, whose unit is its user's.
// Errors:  none.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/plan/plan.h"

namespace tutti::plan {

class RingCursor {
 public:
  static constexpr uint32_t kMostRegions = 4;

  RingCursor() = default;
  explicit RingCursor(uint64_t region_size, uint32_t regions = kMostRegions)
      : region_size_(region_size), regions_(regions) {}

  uint64_t size() const { return region_size_ * regions_; }

  /// Takes `size` (<= size()) and returns its position. `progress` is the lane counter's value
  /// from which on everything taken before has been read. `most`: of a region, no more is used,
  /// but by a frame that spans several.
  uint64_t take(uint64_t size, uint64_t progress, uint64_t most = ~uint64_t{0}) {
    if (size > region_size_) {
      leave(progress, static_cast<uint32_t>((size + region_size_ - 1) / region_size_));
    } else if (used_ + size > std::min(region_size_, most)) {
      leave(progress, 1);
    }
    const uint64_t position = region_ * region_size_ + used_;
    used_ += size;
    return position;
  }

  /// The counter value every reader must have reached before this region is written again.
  uint64_t required() const {
    return *std::max_element(release_.begin() + region_, release_.begin() + region_ + span_);
  }
  bool credited() const { return credited_; }
  void set_credited() { credited_ = true; }

 private:
  /// Goes on to the next `span` regions that follow each other.
  void leave(uint64_t progress, uint32_t span) {
    std::fill_n(release_.begin() + region_, span_, progress);
    region_ += span_;
    if (region_ + span > regions_) region_ = 0;
    span_ = span;
    used_ = 0;
    credited_ = false;
  }

  uint64_t region_size_ = 0;
  uint64_t used_ = 0;  // behind a frame that spans regions there is room for nothing
  uint32_t regions_ = kMostRegions;
  uint32_t region_ = 0;  // the first of span_
  uint32_t span_ = 1;
  bool credited_ = false;  // the first region, too, is entered by asking for credit
  std::array<uint64_t, kMostRegions> release_{};
};

/// The cell ring, in bytes. Tiny frames that follow each other share a cell.
class CellCursor {
 public:
  CellCursor() = default;
  explicit CellCursor(uint32_t cells_per_region, uint32_t regions = RingCursor::kMostRegions)
      : ring_(cells_per_region, regions) {}

  uint64_t size() const { return ring_.size(); }  // in cells

  /// As RingCursor's.
  uint64_t take(uint32_t cells, bool tiny, uint64_t progress) {
    if (tiny && parts_ > 0 && parts_ < kTinyParts) return part(parts_++);
    cell_ = ring_.take(cells, progress) * kCellStride;
    parts_ = tiny ? 1 : 0;
    return tiny ? part(0) : cell_;
  }
  uint64_t required() const { return ring_.required(); }
  bool credited() const { return ring_.credited(); }
  void set_credited() { ring_.set_credited(); }

 private:
  uint64_t part(uint32_t index) const { return cell_ + kTinyBegin + uint64_t{index} * kTinyStride; }

  RingCursor ring_;
  uint64_t cell_ = 0;   // taken last
  uint32_t parts_ = 0;  // of it, that are taken; 0: it is no tiny one's
};

/// The counts that a lane continues from call to call.
struct LaneCursor {
  uint64_t progress = 1;  // the lane counter's value between two slices
  RingCursor ring;
};

/// All that the calls of one rank have in common, equal on all ranks of a domain: a rank that joins
/// a group continues with the cursors of its members.
struct Cursors {
  std::array<LaneCursor, kMaxLanes> lanes;
  CellCursor cells;
};

/// Takes the cells, then the frame, that a slice of the lane needs. `read`: the counter value from
/// which on every earlier slice of the lane has been read.
struct Frame {
  uint64_t frame = 0;  // bytes, in the lane's ring
  uint64_t cell = 0;   // bytes, in the cell ring
};
inline Frame take_frame(const LanePlan& plan, LaneCursor& lane, CellCursor& cells, uint64_t read) {
  Frame taken;
  if (plan.cells > 0) taken.cell = cells.take(plan.cells, plan.tiny, read);
  if (plan.frame_bytes > 0) taken.frame = lane.ring.take(plan.frame_bytes, read, plan.region_bytes);
  return taken;
}

}  // namespace tutti::plan
