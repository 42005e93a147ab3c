// How a rank writes its staging slots: through the cache, or past it (non-temporal stores).
//
// A cached store must first take the line away from the processor that read it last. Between
// processors that are near each other that is cheap, and the readers then find the line in a cache;
// between far ones (sockets, dies, virtual processors that were moved) it costs many times the
// copy. A store that bypasses the cache asks nobody. Which is cheaper is not to be known from
// outside and may change while a job runs, and as no other rank can see a difference, every rank
// decides for itself, by looking at the clock now and then.
//
// Threads: one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numeric>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/prng.h"

namespace tutti::exec {

/// What the clock says about both kinds, for each class of sizes.
class StagingChoice {
 public:
  /// Shorter pieces go through the cache.
  static constexpr uint64_t kLeastBytes = 4096;
  /// Of the moves with the chosen kind one in so many is timed, by lot: moves to near and to far
  /// readers take turns, and every eighth may be of one sort.
  static constexpr uint32_t kTimedEvery = 8;
  /// The other kind gets its turn with so many moves, this often, or more rarely: a trial takes no
  /// more than one part in kTrialShare of the time.
  static constexpr uint32_t kTrialMoves = 4;
  static constexpr uint64_t kTrialPauseNs = 20'000'000;
  static constexpr uint64_t kTrialShare = 100;
  /// Cached stores may cost this much more: what they write is read from a cache.
  static constexpr double kWorthOfCache = 2;

  struct Turn {
    bool streaming = false;
    bool timed = false;
  };

  /// How pieces of so many bytes are written.
  Turn chosen(uint64_t bytes) { return {class_of(bytes).streaming, false}; }

  /// The same for the next piece, which may also be asked for its time.
  Turn next(uint64_t bytes) {
    Class& c = class_of(bytes);
    if (c.trial > 0) return {!c.streaming, true};
    return {c.streaming, lots_.below(kTimedEvery) == 0};
  }

  /// A timed turn took so long.
  void took(uint64_t bytes, Turn turn, uint64_t duration_ns, uint64_t now_ns) {
    Class& c = class_of(bytes);
    c.cost[turn.streaming].add(static_cast<double>(duration_ns) / static_cast<double>(bytes));
    if (c.trial > 0) {
      --c.trial;
      c.trial_ns += duration_ns;
      c.next_trial_ns = now_ns + std::max(kTrialPauseNs, kTrialShare * c.trial_ns);
    } else if (now_ns >= c.next_trial_ns) {
      c.trial = kTrialMoves;
      c.trial_ns = 0;
    }
    if (c.trial > 0 || !c.cost[true].known() || !c.cost[false].known()) return;
    c.streaming = c.cost[false].mean() > kWorthOfCache * c.cost[true].mean();
  }

 private:
  /// Of the last 16 times: the readers of one move may be near and those of the next far.
  class Cost {
   public:
    void add(double ns_per_byte) { last_[added_++ % last_.size()] = ns_per_byte; }
    bool known() const { return added_ > 0; }

    /// The mean without the longest fifth: some moves are interrupted, and the first touches pages.
    double mean() const {
      auto sorted = last_;
      const size_t size = std::min<size_t>(added_, sorted.size());
      std::sort(sorted.begin(), sorted.begin() + size);
      const size_t kept = size - (size > 1 ? (size + 4) / 5 : 0);
      return std::accumulate(sorted.begin(), sorted.begin() + kept, 0.0) / kept;
    }

   private:
    std::array<double, 16> last_{};
    uint64_t added_ = 0;
  };

  struct Class {
    std::array<Cost, 2> cost;  // [streaming]
    bool streaming = false;
    uint32_t trial = 0;     // so many moves more with the other kind
    uint64_t trial_ns = 0;  // what these have taken
    uint64_t next_trial_ns = 0;
  };

  // From each power of two to the next; all from 2 MiB on are one.
  static constexpr uint32_t kFirstWidth = std::bit_width(kLeastBytes);
  static constexpr uint32_t kClasses = 10;
  Class& class_of(uint64_t bytes) {
    const auto width = static_cast<uint32_t>(std::bit_width(bytes));
    return classes_[std::min(width - std::min(width, kFirstWidth), kClasses - 1)];
  }

  std::array<Class, kClasses> classes_;
  Prng lots_{1};  // any: only that it keeps no step with the calls matters
};

/// Writes staging memory as the setting says.
class StagingWriter {
 public:
  explicit StagingWriter(StagingStores stores) : stores_(stores) {}

  /// Calls write(streaming) once, which writes `bytes` bytes. A write that is no plain copy says
  /// more about its sources than about the stores: it is not timed.
  template <class Write>
  void operator()(uint64_t bytes, bool is_copy, Write&& write) {
    if (bytes < StagingChoice::kLeastBytes) return write(false);
    if (stores_ != StagingStores::kMeasured) return write(stores_ == StagingStores::kStreaming);
    const StagingChoice::Turn turn = is_copy ? choice_.next(bytes) : choice_.chosen(bytes);
    if (!turn.timed) return write(turn.streaming);
    const uint64_t begin_ns = monotonic_ns();
    write(turn.streaming);
    const uint64_t end_ns = monotonic_ns();
    choice_.took(bytes, turn, end_ns - begin_ns, end_ns);
  }

 private:
  const StagingStores stores_;
  StagingChoice choice_;
};

}  // namespace tutti::exec
