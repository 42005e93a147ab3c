// The machine of plan::Walk with a virtual clock: one simulated rank's thread, which does the work
// of all its lanes.
//
// Work moves the clock and no bytes. An event that a rank waits for has a time once known, and the
// clock goes on to it; what is not known puts the rank aside, and the very thing that it waits for
// wakes it. A plan of one lane runs ahead of what the other ranks have done so far: its order is
// given, so nothing that they do later can change it. In a plan of several lanes the thread takes
// what is there first, so it does nothing before the time of the simulation has come to its clock.
//
// Threads: one. Errors: none; a rank that has died does not go on.
#pragma once

#include <cstdint>
#include <vector>

#include "src/plan/walk.h"
#include "src/sim/costs.h"
#include "src/sim/path.h"
#include "src/sim/time.h"

namespace tutti::sim {

class Simulation;

enum class SpanKind : uint8_t { kMove, kWait, kSend };
/// A piece of work of a traced rank, or a wait.
struct Span {
  SpanKind kind = SpanKind::kMove;
  uint32_t actor = 0;
  uint32_t lane = 0;
  uint32_t peer = ~0u;  // rank; of a move: none
  uint64_t slice = 0;
  double bytes = 0;
  Time begin = 0, end = 0;
};

enum class WantKind : uint8_t { kNothing, kCounter, kFlag, kArrival, kOut, kCopy };
/// A lane cannot go on without it.
struct Want {
  WantKind kind = WantKind::kNothing;
  uint32_t actor = 0;  // whose counter or flag it is
  uint32_t peer = 0;   // the rank
  uint64_t place = 0;  // lane; cell; ordinal
  uint64_t value = 0;
  uint64_t slice = 0;
  bool operator==(const Want&) const = default;
};

class ClockMachine {
 public:
  static constexpr uint64_t kSlicesATurn = 16;

  /// How fast a rank is.
  struct Speed {
    double factor = 1;  // its work takes so many times as long as the costs say
    Time turn = 0;      // before it goes on after a wait
    Time dead_from = kNever;
  };

  ClockMachine(Simulation& simulation, uint32_t actor, const Speed& speed, bool is_traced);

  plan::Answer enter(const plan::Position& at) { return raise(at, at.frame.cell, at.progress); }
  plan::Answer entered(const plan::Position& at, uint32_t member) {
    return raised(at, member, at.frame.cell, at.progress);
  }
  plan::Answer move(const plan::Position& at, const plan::Op& op);
  plan::Answer read(const plan::Position& at, const plan::Op& op);
  plan::Answer signal(const plan::Position& at, uint64_t value);
  plan::Answer reached(const plan::Position& at, uint32_t member, uint32_t lane, uint64_t value);
  plan::Answer own_reached(const plan::Position& at, uint32_t lane, uint64_t value);
  plan::Answer passed(const plan::Position& at, uint32_t lane, uint64_t value);
  plan::Answer raise(const plan::Position& at, uint64_t cell, uint64_t flag);
  plan::Answer raised(const plan::Position& at, uint32_t member, uint64_t cell, uint64_t flag);
  plan::Answer post(const plan::Position& at, const plan::Op& op);
  plan::Answer arrived(const plan::Position& at, const plan::Op& op);
  plan::Answer sent(const plan::Position& at, const plan::Op& op);
  void fork() {}
  void opened(const plan::Position& /*at*/) {}
  void closed(const plan::Position& /*at*/) {}
  void stepped(const plan::Position& /*at*/) {}
  void behind(const plan::Position& /*at*/, uint32_t /*lane*/, uint64_t /*slice*/,
              uint32_t /*ops*/) {}
  void join() {}

  /// A post of a lane has ended.
  void set_arrived(uint32_t lane, uint32_t ordinal, const KnownTime& known);
  void set_sent(uint32_t lane, uint32_t ordinal, const KnownTime& known);
  void set_copied(Time time);
  /// The lane is woken: it may register anew for what it wants.
  void forget(uint32_t lane) { lanes_[lane].registered = false; }

  Time clock() const { return clock_; }
  uint32_t hop() const { return hop_; }
  bool is_dead() const { return is_dead_; }
  const Want& want(uint32_t lane) const { return lanes_[lane].want; }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  struct ClockLane {
    std::vector<KnownTime> arrived, sent;  // by ordinal; kNever: not yet
    std::vector<uint32_t> sent_to;         // by ordinal
    std::vector<double> sent_bytes;
    Want want;
    bool registered = false;
    bool copied = false;  // what it asked its host's medium for is done
  };
  /// Blocks of equal length.
  struct LengthRun {
    uint64_t length;
    uint8_t encoding;
    uint32_t count;
  };

  bool may_act();
  plan::Answer answer(const plan::Position& at, const KnownTime& known, const Want& want,
                      uint8_t level);
  plan::Answer register_want(uint32_t lane, const Want& want);
  plan::Answer wait(const plan::Position& at, KnownTime known, const Want& want);
  void wake_at(Time time);
  void happened(WantKind kind, uint32_t lane, uint32_t ordinal);
  KnownTime self() const { return {clock_, hop_, actor_, clock_, clock_}; }
  void work(double nanoseconds);
  double piece_bytes(const plan::Position& at, uint64_t length, uint8_t encoding) const;
  double coding_ns(const plan::Position& at, const plan::Op& op) const;
  double message_bytes(const plan::Position& at, uint32_t op) const;
  void count_peers(const plan::Op& op, double bytes);
  void note(SpanKind kind, const plan::Position& at, uint32_t peer, double bytes, Time begin);
  void find_near();
  void group_lengths();

  Simulation& simulation_;
  const uint32_t actor_;
  const int rank_;
  const plan::Plan& plan_;
  const Speed speed_;
  const bool runs_ahead_;
  const bool is_traced_;
  Time clock_ = 0;
  uint32_t hop_ = kNoHop;
  bool is_dead_ = false;
  bool copies_ = false;  // and does nothing else until that is done
  uint32_t copying_lane_ = 0;
  Time copy_begin_ = 0;
  Time woken_at_ = kNever;  // that it has asked for last
  std::vector<ClockLane> lanes_;
  std::vector<uint32_t> near_;  // ranks that map its memory, one of each actor and distance
  std::vector<std::vector<LengthRun>> runs_;  // by op: the lengths of what streams carry
  std::vector<Span> spans_;
};

}  // namespace tutti::sim
