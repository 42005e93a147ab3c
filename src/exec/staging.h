// The positions in a lane's staging ring and in the cell ring. Every rank of a domain runs the same
// plans, so every rank computes the same positions and nobody sends one.
//
// A ring is a few regions. Frames are taken one after the other within a region; the move to the
// next region is the only moment at which a writer must know that all readers have passed what lay
// there.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "src/plan/plan.h"

namespace tutti::exec {

template <uint32_t kRegions>
class RingCursor {
 public:
  explicit RingCursor(uint64_t region_size = 0) : region_size_(region_size) {}

  /// Takes `size` (<= region size) and returns its position. `progress` is the lane counter's value
  /// from which on everything taken before has been read. `most`: of a region, no more is used.
  uint64_t take(uint64_t size, uint64_t progress, uint64_t most = ~uint64_t{0}) {
    if (used_ + size > std::min(region_size_, most)) {
      release_[region_] = progress;
      region_ = (region_ + 1) % kRegions;
      used_ = 0;
      credited_ = false;
    }
    const uint64_t position = region_ * region_size_ + used_;
    used_ += size;
    return position;
  }

  /// The counter value every reader must have reached before this region is written again.
  uint64_t required() const { return release_[region_]; }
  bool credited() const { return credited_; }
  void set_credited() { credited_ = true; }
  uint32_t region() const { return region_; }

 private:
  uint64_t region_size_;
  uint64_t used_ = 0;
  uint32_t region_ = 0;
  bool credited_ = false;
  std::array<uint64_t, kRegions> release_{};
};

/// The cell ring, in bytes. Tiny frames that follow each other share a cell.
template <uint32_t kRegions>
class CellCursor {
 public:
  explicit CellCursor(uint32_t cells_per_region) : ring_(cells_per_region) {}

  /// As RingCursor's.
  uint64_t take(uint32_t cells, bool tiny, uint64_t progress) {
    if (tiny && parts_ > 0 && parts_ < plan::kTinyParts) return part(parts_++);
    cell_ = ring_.take(cells, progress) * plan::kCellStride;
    parts_ = tiny ? 1 : 0;
    return tiny ? part(0) : cell_;
  }
  uint64_t required() const { return ring_.required(); }
  bool credited() const { return ring_.credited(); }
  void set_credited() { ring_.set_credited(); }
  uint32_t region() const { return ring_.region(); }

 private:
  uint64_t part(uint32_t index) const {
    return cell_ + plan::kTinyBegin + uint64_t{index} * plan::kTinyStride;
  }

  RingCursor<kRegions> ring_;
  uint64_t cell_ = 0;   // taken last
  uint32_t parts_ = 0;  // of it, that are taken; 0: it is no tiny one's
};

}  // namespace tutti::exec
