// The most memory that a rank can hold: over all moments that the order of its tasks allows, not
// only over those of one simulation, in which what nothing orders happens to run one after the
// other.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "src/runtime/index.h"
#include "src/runtime/timeline_graph.h"

namespace tutti::runtime {
namespace {

/// One track as a row of events, two a task: it begins, it ends. A moment of the rank is how many
/// events of each track have happened; the clocks say which moments there are.
struct MemoryTrack {
  std::vector<int64_t> held;                    // after so many events, by this track alone
  std::vector<std::array<int, kTracks>> needs;  // so many events of each track are before these
  int64_t events() const { return std::ssize(held) - 1; }
};

/// The largest of a range, by a table of powers of two.
class RangeMaximum {
 public:
  explicit RangeMaximum(const std::vector<int64_t>& values) : rows_{values} {
    for (size_t width = 1; 2 * width <= values.size(); width *= 2) {
      const std::vector<int64_t>& last = rows_.back();
      std::vector<int64_t> next(values.size() - 2 * width + 1);
      for (size_t i = 0; i < next.size(); ++i) next[i] = std::max(last[i], last[i + width]);
      rows_.push_back(std::move(next));
    }
  }
  int64_t of(int64_t first, int64_t last) const {
    const int row = std::bit_width(static_cast<uint64_t>(last - first + 1)) - 1;
    return std::max(rows_[at(row)][at(first)], rows_[at(row)][at(last - (int64_t{1} << row) + 1)]);
  }

 private:
  std::vector<std::vector<int64_t>> rows_;
};

/// Goes through the moments of all tracks but the longest one, of which the best moment that fits
/// is looked up.
class PeakSearch {
 public:
  PeakSearch(std::array<MemoryTrack, kTracks> tracks) : tracks_(std::move(tracks)) {
    for (int track = 0; track < kTracks; ++track) {
      const std::vector<int64_t>& held = tracks_[at(track)].held;
      if (std::any_of(held.begin(), held.end(), [](int64_t bytes) { return bytes != 0; })) {
        order_.push_back(track);
      }
    }
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
      return tracks_[at(a)].events() < tracks_[at(b)].events();
    });
  }

  int64_t most() {
    if (order_.empty()) return 0;
    const RangeMaximum last(tracks_[at(order_.back())].held);
    last_ = &last;
    descend(0, 0);
    return most_;
  }

 private:
  void descend(size_t depth, int64_t held) {
    const int track = order_[depth];
    const MemoryTrack& own = tracks_[at(track)];
    // The chosen moments of the other tracks need some of this one, and forbid some.
    int64_t first = 0, last = own.events();
    for (size_t d = 0; d < depth; ++d) {
      const int other = order_[d];
      first = std::max<int64_t>(first, tracks_[at(other)].needs[at(moment_[at(other)])][at(track)]);
      const auto beyond = std::partition_point(
          own.needs.begin(), own.needs.end(),
          [&](const auto& needs) { return needs[at(other)] <= moment_[at(other)]; });
      last = std::min<int64_t>(last, beyond - own.needs.begin() - 1);
    }
    if (first > last) return;
    if (depth + 1 == order_.size()) {
      most_ = std::max(most_, held + last_->of(first, last));
      return;
    }
    for (int64_t moment = first; moment <= last; ++moment) {
      moment_[at(track)] = moment;
      descend(depth + 1, held + own.held[at(moment)]);
    }
  }

  std::array<MemoryTrack, kTracks> tracks_;
  std::vector<int> order_;  // tracks that hold memory, the longest last
  std::array<int64_t, kTracks> moment_{};
  const RangeMaximum* last_ = nullptr;
  int64_t most_ = 0;
};

}  // namespace

Bytes most_memory(const Timeline& timeline, const std::vector<int>& tasks_of_rank,
                  const HappensBefore::Clocks& clocks) {
  std::array<MemoryTrack, kTracks> tracks;
  for (MemoryTrack& track : tracks) {
    track.held = {0};
    track.needs = {{}};
  }
  for (const int t : tasks_of_rank) {
    const TimelineTask& task = timeline.tasks[at(t)];
    const size_t own = at(static_cast<int>(task.track));
    MemoryTrack& track = tracks[own];
    for (const bool ends : {false, true}) {
      const HappensBefore::Clock& clock = (ends ? clocks.at_end : clocks.at_begin)[at(t)];
      std::array<int, kTracks> needs{};
      for (size_t other = 0; other < at(kTracks); ++other) needs[other] = 2 * clock[other];
      needs[own] = 0;  // its events come in their order anyway
      track.needs.push_back(needs);
      track.held.push_back(track.held.back() + (ends ? -task.releases.value : task.acquires.value));
    }
  }
  return Bytes(PeakSearch(std::move(tracks)).most());
}

}  // namespace tutti::runtime
