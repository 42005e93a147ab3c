// How a rank writes its staging slots: through the cache, or past it (non-temporal stores).
//
// A cached store must first take the line away from the processor that read it last, and the reader
// then takes it back. Between processors that are near each other that is cheap; between far ones
// (sockets, dies, virtual processors that were moved) it costs many times the copy, and which of
// the two pays differs between hosts. A store that bypasses the cache asks nobody, but who reads
// next goes to memory. Which is cheaper is not to be known from outside and may change while a job
// runs. As no other rank can see a difference in the bytes, every rank decides for itself, by
// looking at the clock now and then. A move that is timed where it is written is also timed where
// it is read: the writer marks it beside its counter, and the readers publish what they paid.
//
// Threads: one at a time; marks and published costs are atomic.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/prng.h"
#include "src/exec/arena_map.h"

namespace tutti::exec {

/// Shorter pieces go through the cache.
inline constexpr uint64_t kLeastStagingBytes = 4096;

/// Classes of sizes: from each power of two to the next; all from 2 MiB on are one.
constexpr uint32_t staging_class(uint64_t bytes) {
  constexpr uint32_t kFirstWidth = std::bit_width(kLeastStagingBytes);
  const auto width = static_cast<uint32_t>(std::bit_width(bytes));
  return std::min(width - std::min(width, kFirstWidth), kStagingClasses - 1);
}

/// Both kinds in ns a byte, [streaming]; 0: not known.
using StoreCosts = std::array<float, 2>;

/// Of the last times: the readers of one move may be near and those of the next far.
class MoveCost {
 public:
  static constexpr uint32_t kTimes = 16;

  void add(uint64_t bytes, uint64_t duration_ns) {
    last_[added_++ % kTimes] = static_cast<float>(duration_ns) / static_cast<float>(bytes);
  }
  uint64_t added() const { return added_; }

  /// The mean without the longest fifth, as some moves are interrupted, and the first touches
  /// pages; 0 as long as there is nothing.
  float mean() const;

 private:
  std::array<float, kTimes> last_{};
  uint64_t added_ = 0;
};

/// Names the move that its writer has timed: where in the order of moves, of which class and kind.
/// As a word in shared memory; 0 names none.
class StagingMark {
 public:
  StagingMark(uint64_t at, uint32_t size_class, bool streaming)
      : word_(at << kAtShift | size_class << kClassShift | (streaming ? kStreaming : 0) | kMarked) {
  }
  explicit StagingMark(uint64_t word) : word_(word) {}

  uint64_t word() const { return word_; }
  /// Whether the move is one of the `count` that begin with that at `first`.
  bool is_among(uint64_t first, uint64_t count) const {
    return (word_ & kMarked) != 0 && (word_ - (first << kAtShift)) >> kAtShift < count;
  }
  uint32_t size_class() const { return (word_ >> kClassShift) % 16; }
  bool streaming() const { return (word_ & kStreaming) != 0; }

 private:
  static constexpr uint64_t kMarked = 1, kStreaming = 2;
  static constexpr int kClassShift = 2, kAtShift = 8;
  static_assert(kStagingClasses <= 16);

  uint64_t word_;
};

/// Measured times of both kinds of stores, for each class of sizes.
class StagingChoice {
 public:
  /// Of the moves with the chosen kind one in so many is timed, by lot: moves to near and to far
  /// readers take turns, and every sixteenth may be of one sort.
  static constexpr uint32_t kTimedEvery = 16;
  /// The other kind gets its turn with so many moves: all that its cost is taken from, as the
  /// processors may have moved since the last trial, and this class may not have been used.
  static constexpr uint32_t kTrialMoves = MoveCost::kTimes;
  /// A trial takes one part in kTrialShare of the time, and the moves of trials are few among all:
  /// it begins after so many timed ones with the chosen kind. The next one is never further away
  /// than the longest pause, whatever the share: some moves are interrupted for seconds.
  static constexpr uint64_t kTrialPauseNs = 1'000'000, kLongestPauseNs = 1'000'000'000;
  static constexpr uint64_t kTrialShare = 200;
  static constexpr uint32_t kTrialEvery = 32;
  /// After so many timed ones it is chosen again. A choice costs as much as a short move.
  static constexpr uint32_t kChosenEvery = 8;
  /// As long as no reader has told what it pays, cached stores may cost this much more: what they
  /// write is read from a cache.
  static constexpr float kWorthOfCache = 2;

  struct StoreChoice {
    bool streaming = false;
    bool timed = false;
  };

  /// How pieces of so many bytes are written.
  StoreChoice chosen(uint64_t bytes) { return {class_of(bytes).streaming, false}; }

  /// The same for the next piece, which may also be asked for its time.
  StoreChoice next(uint64_t bytes) {
    Class& c = class_of(bytes);
    if (c.trial > 0) return {!c.streaming, true};
    return {c.streaming, lots_.below(kTimedEvery) == 0};
  }

  /// A timed turn took so long. True when it is time to choose() again.
  bool took(uint64_t bytes, StoreChoice turn, uint64_t duration_ns, uint64_t now_ns);

  /// `readers`: what the slowest reader of pieces of this class pays; zeros: what it did before.
  void choose(uint64_t bytes, const StoreCosts& readers);

 private:
  struct Class {
    std::array<MoveCost, 2> cost;  // [streaming]
    StoreCosts readers{};
    bool streaming = false;
    /// Timed moves with the chosen kind since the last trial.
    uint32_t since_trial = kTrialEvery - 1;
    uint32_t trial = 0;     // so many moves more with the other kind
    uint64_t trial_ns = 0;  // what these have taken
    uint64_t next_trial_ns = 0;
  };

  Class& class_of(uint64_t bytes) { return classes_[staging_class(bytes)]; }

  std::array<Class, kStagingClasses> classes_;
  Prng lots_{1};  // any: only that it keeps no step with the calls matters
};

/// Measured times that the other ranks of the domain need for reading.
class StagingReaders {
 public:
  /// A reader that has published nothing over so many looks is taken to read no more.
  static constexpr uint32_t kGoneLooks = 64;

  explicit StagingReaders(const std::vector<const StagingReads*>& readers);

  /// The most that one of them pays for pieces of this class; zeros: nobody has told.
  StoreCosts look(uint64_t bytes);

 private:
  struct ReportedCosts {
    uint64_t word = 0;
    uint32_t looks = kGoneLooks;  // that found this word
  };
  struct ReaderCosts {
    const StagingReads* reads;
    std::array<ReportedCosts, kStagingClasses> told;
  };

  std::vector<ReaderCosts> readers_;
};

/// Writes staging memory as the setting says.
class StagingWriter {
 public:
  /// The costs that the other ranks of the domain publish.
  StagingWriter(StagingStores stores, const std::vector<const StagingReads*>& readers)
      : stores_(stores), readers_(readers) {}

  /// Where a timed move is marked, and its place in the order of moves there.
  struct Order {
    std::atomic<uint64_t>& mark;
    uint64_t at;
  };

  /// Calls write(streaming) once, which writes `bytes` bytes. A write that is no plain copy says
  /// more about its sources than about the stores: it is not timed.
  template <class Write>
  void operator()(uint64_t bytes, bool is_copy, Order order, Write&& write) {
    if (bytes < kLeastStagingBytes) return write(false);
    if (stores_ != StagingStores::kMeasured) return write(stores_ == StagingStores::kStreaming);
    const StagingChoice::StoreChoice turn = is_copy ? choice_.next(bytes) : choice_.chosen(bytes);
    if (!turn.timed) return write(turn.streaming);
    const uint64_t begin_ns = monotonic_ns();
    write(turn.streaming);
    const uint64_t end_ns = monotonic_ns();
    const StagingMark mark(order.at, staging_class(bytes), turn.streaming);
    order.mark.store(mark.word(), std::memory_order_relaxed);
    if (choice_.took(bytes, turn, end_ns - begin_ns, end_ns)) {
      choice_.choose(bytes, readers_.look(bytes));
    }
  }

 private:
  const StagingStores stores_;
  StagingReaders readers_;
  StagingChoice choice_;
};

/// Reads staging memory, and publishes what it pays for moves that their writers have timed.
class StagingReader {
 public:
  explicit StagingReader(StagingReads& reads) : reads_(reads) {}

  /// Calls read() once, which reads `bytes` bytes of the `count` moves that begin with that at
  /// `first`. It is timed if the mark is for one of these.
  template <class Read>
  void operator()(uint64_t bytes, StagingMark mark, uint64_t first, uint64_t count, Read&& read) {
    if (bytes < kLeastStagingBytes || !mark.is_among(first, count)) return read();
    const uint64_t begin_ns = monotonic_ns();
    read();
    took(bytes, mark, monotonic_ns() - begin_ns);
  }

  void took(uint64_t bytes, StagingMark mark, uint64_t duration_ns);

  /// It publishes after so many times of a kind.
  static constexpr uint32_t kToldEvery = 4;

 private:
  StagingReads& reads_;
  std::array<std::array<MoveCost, 2>, kStagingClasses> costs_;
};

}  // namespace tutti::exec
