// The control flow of a plan, once, for every machine.
//
// A walk says which micro-operation of which lane and slice is next; a machine says what that means
// for it: a host thread moves bytes, the plan verifier moves symbols, a recorder writes down, an
// engine of streams enqueues. The order of a rank's work is
//
//     prologue, fork, [ every lane: slices in order ], join, epilogue
//
// and a lane begins a slice when no other lane is `slices_in_flight` or more slices behind. A lane
// may do each slice of the plan in parts, which are slices of its own. A walk
// drives the lanes of one engine; that of lane 0 has the prologue and the epilogue. Lanes of two
// engines share no cursor: each walk has Cursors of its own and learns what the other engine's
// lanes have done from this rank's counters.
//
// A machine answers a question with
//   kGoOn    it holds, or all that follows in this lane is ordered behind it
//   kNotYet  ask again later; a machine that wants to be woken notes what it was asked for
//   kFailed  the walk ends; why is the machine's affair
// An answer never means that time has passed. The functions that a machine has:
//
//     static constexpr uint64_t kSlicesATurn   // of one lane before the next lane has its turn
//     Answer enter(at)                         // publish my buffers in the entry cell at.cell
//     Answer entered(at, member)               // until `member` has published its own
//     Answer move(at, op), read(at, op)        // targets <- fold(sources); by a system call
//     Answer signal(at, value)                 // my counter of lane at.lane := value
//     Answer reached(at, member, lane, value)  // until the member's counter >= value
//     Answer own_reached(at, lane, value)      // the same of a lane of mine, of another engine
//     Answer passed(at, lane, value)           // until all members near me have reached value
//     Answer raise(at, cell, flag)             // the flag of my cell at byte `cell`
//     Answer raised(at, member, cell, flag)    // until the member's flag has this value
//     Answer post(at, op)                      // a send or receive by stream
//     Answer arrived(at, op), sent(at, op)     // until what was posted has arrived, or is out
//     Answer level(at, op)                     // a level call with the ranks near me. A machine
//                                              // without it fails at plans that have some
//     void fork()                              // all lanes go on behind the prologue
//     void opened(at), closed(at)              // a slice
//     void stepped(at)                         // the micro-operation at.op is behind the lane
//     void behind(at, lane, slice, ops)        // this lane goes on behind `ops` steps of a slice
//                                              // of another lane; kAllOps: behind its end
//     void join()                              // lane 0 goes on behind all lanes
//
// fork, behind and join say every order between lanes of a rank: nothing for one host thread, a
// join of clocks for the verifier, an event for streams.
//
// Threads: one at a time.
// Errors:  none of its own; a plan is taken to be one that verify_plans() accepts.
#pragma once

#include <array>
#include <cstdint>

#include "src/plan/cursor.h"
#include "src/plan/plan.h"

namespace tutti::plan {

enum class Answer : uint8_t { kGoOn, kNotYet, kFailed };

/// The outcome of advance(). kMoved: another call at once may do more.
enum class Progress : uint8_t { kDone, kMoved, kBlocked, kFailed };

enum class Phase : uint8_t { kPrologue, kSlices, kEpilogue, kDone };

inline constexpr uint32_t kAllOps = ~0u;

/// Where a lane stands, and where the bytes of its slice lie.
struct Position {
  Phase phase = Phase::kPrologue;
  bool open = false;  // the slice has its frame
  uint32_t lane = 0;
  uint32_t op = 0;        // of Plan::ops; of the prologue or epilogue there
  uint64_t slice = 0;     // as many of the lane's are behind it
  uint64_t progress = 0;  // the lane counter's value when the slice begins
  Frame frame{};
};

/// The rules of a walk as they are. Tests of checkers break one at a time (FaultyRules).
struct SoundRules {
  static constexpr bool credit = true;        // frames are written once they may be
  static constexpr bool window = true;        // no lane runs ahead by slices_in_flight
  static constexpr bool after = true;         // a step waits for steps of other lanes
  static constexpr bool last_part = true;     // and for the last part of a slice in parts
  static constexpr bool late_release = true;  // a region is read when all of its frames are
  static constexpr bool orders = true;        // the machine is told of fork, behind and join
  static constexpr bool epilogue = true;      // readers of my buffers are waited for
};

struct FaultyRules {
  bool credit = true;
  bool window = true;
  bool after = true;
  bool last_part = true;
  bool late_release = true;
  bool orders = true;
  bool epilogue = true;
};

/// A ring region, or the cell ring of lane 0, may be written when all ranks have read what lay
/// there.
template <class Machine>
Answer await_credit(Machine& machine, const Position& at, Cursors& cursors) {
  RingCursor& ring = cursors.lanes[at.lane].ring;
  if (!ring.credited()) {
    const Answer answer = machine.passed(at, at.lane, ring.required());
    if (answer != Answer::kGoOn) return answer;
    ring.set_credited();
  }
  if (at.lane != 0 || cursors.cells.credited()) return Answer::kGoOn;
  const Answer answer = machine.passed(at, 0, cursors.cells.required());
  if (answer == Answer::kGoOn) cursors.cells.set_credited();
  return answer;
}

template <class Machine, class Rules = SoundRules>
class Walk {
 public:
  explicit Walk(Engine engine = Engine::kHost, Rules rules = {}) : engine_(engine), rules_(rules) {}

  /// Begins a call. The plan and the cursors stay where they are until the call is done.
  void start(const Plan& plan, Cursors& cursors) {
    plan_ = &plan;
    cursors_ = &cursors;
    phase_ = Phase::kPrologue;
    ends_ = {.progress = cursors.lanes[0].progress};
    if (!plan.prologue.empty()) ends_.frame.cell = cursors.cells.take(1, false, ends_.progress);
    for (uint32_t i = 0; i < lanes(); ++i) {
      base_[i] = cursors.lanes[i].progress;
      lanes_[i] = {
          .phase = Phase::kSlices, .lane = i, .op = plan.lanes[i].begin, .progress = base_[i]};
    }
  }

  /// Does what can be done without waiting.
  Progress advance(Machine& machine) {
    bool moved = false;
    if (phase_ == Phase::kPrologue) {
      const Answer answer = leads() ? advance_prologue(machine, moved) : Answer::kGoOn;
      if (answer != Answer::kGoOn) return stopped(answer, moved);
      if (rules_.orders && leads()) machine.fork();
      phase_ = Phase::kSlices;
    }
    if (phase_ == Phase::kSlices) {
      const Answer answer = advance_lanes(machine, moved);
      if (answer != Answer::kGoOn) return stopped(answer, moved);
      if (rules_.orders && leads()) machine.join();
      phase_ = Phase::kEpilogue;
      ends_ = {.phase = Phase::kEpilogue, .progress = lanes_[0].progress};
    }
    const Answer answer = leads() ? advance_epilogue(machine, moved) : Answer::kGoOn;
    if (answer != Answer::kGoOn) return stopped(answer, moved);
    for (uint32_t i = 0; i < lanes(); ++i) {
      cursors_->lanes[i].progress = end_of(i, slices_of(*plan_, i));
    }
    phase_ = Phase::kDone;
    return Progress::kDone;
  }

  Phase phase() const { return phase_; }
  /// A lane, during the slices and behind them.
  const Position& position(uint32_t lane) const { return lanes_[lane]; }
  /// All of them, by lane.
  const Position* positions() const { return lanes_.data(); }
  /// The prologue or epilogue, in which one thread goes on for all lanes.
  const Position& ends() const { return ends_; }

 private:
  uint32_t lanes() const { return static_cast<uint32_t>(plan_->lanes.size()); }
  bool drives(uint32_t lane) const { return plan_->lanes[lane].engine == engine_; }
  /// The engine of lane 0 has the prologue and the epilogue, too.
  bool leads() const { return drives(0); }
  uint64_t parts_of(uint32_t lane) const { return plan_->lanes[lane].parts; }
  /// The counter's value once so many of the lane's slices of this call are behind it.
  uint64_t end_of(uint32_t lane, uint64_t slices) const {
    return base_[lane] + slices * plan_->lanes[lane].advance;
  }
  static Progress stopped(Answer answer, bool moved) {
    if (answer == Answer::kFailed) return Progress::kFailed;
    return moved ? Progress::kMoved : Progress::kBlocked;
  }

  Answer advance_prologue(Machine& machine, bool& moved) {
    for (; ends_.op < plan_->prologue.size(); ++ends_.op, moved = true) {
      const Op& op = plan_->prologue[ends_.op];
      Answer answer = Answer::kGoOn;
      if (op.code == OpCode::kEnter) {
        answer = credit(machine, ends_);
        if (answer == Answer::kGoOn) answer = machine.enter(ends_);
      } else {
        answer = machine.entered(ends_, op.peer);
      }
      if (answer != Answer::kGoOn) return answer;
    }
    return Answer::kGoOn;
  }

  Answer advance_epilogue(Machine& machine, bool& moved) {
    if (!rules_.epilogue) return Answer::kGoOn;
    for (; ends_.op < plan_->epilogue.size(); ++ends_.op, moved = true) {
      const Op& op = plan_->epilogue[ends_.op];
      const uint64_t last = end_of(op.lane, slices_of(*plan_, op.lane) - 1);
      const Answer answer = machine.reached(ends_, op.peer, op.lane, last + op.value);
      if (answer != Answer::kGoOn) return answer;
    }
    return Answer::kGoOn;
  }

  // kGoOn once all slices are behind all lanes.
  Answer advance_lanes(Machine& machine, bool& moved) {
    bool finished = true;
    for (uint32_t i = 0; i < lanes(); ++i) {
      if (!drives(i)) continue;
      if (advance_lane(machine, lanes_[i], moved) == Answer::kFailed) return Answer::kFailed;
      finished = finished && lanes_[i].slice == slices_of(*plan_, i);
    }
    return finished ? Answer::kGoOn : Answer::kNotYet;
  }

  Answer advance_lane(Machine& machine, Position& lane, bool& moved) {
    const LanePlan& plan = plan_->lanes[lane.lane];
    const uint64_t turn = lane.slice + Machine::kSlicesATurn;
    const uint64_t slices = slices_of(*plan_, lane.lane);
    const uint64_t end = turn < slices ? turn : slices;
    while (lane.slice < end) {
      if (!lane.open) {
        if (const Answer answer = may_open(machine, lane); answer != Answer::kGoOn) return answer;
        open(machine, lane, plan);
      }
      for (; lane.op < plan.end; ++lane.op, moved = true) {
        const Answer answer = execute(machine, lane, plan_->ops[lane.op]);
        if (answer != Answer::kGoOn) return answer;
        machine.stepped(lane);
      }
      machine.closed(lane);
      lane.progress += plan.advance;
      ++lane.slice;
      lane.op = plan.begin;
      lane.open = false;
      moved = true;
    }
    return Answer::kGoOn;
  }

  Answer may_open(Machine& machine, Position& lane) {
    const uint64_t in_flight = plan_->slices_in_flight;
    if (lanes() == 1 || !rules_.window) return Answer::kGoOn;
    const uint64_t slice = lane.slice / parts_of(lane.lane);
    for (uint32_t i = 0; i < lanes(); ++i) {
      if (drives(i)) {
        if (slice >= lanes_[i].slice / parts_of(i) + in_flight) return Answer::kNotYet;
      } else if (slice >= in_flight) {
        const uint64_t value = end_of(i, (slice - in_flight + 1) * parts_of(i));
        const Answer answer = machine.own_reached(lane, i, value);
        if (answer != Answer::kGoOn) return answer;
      }
    }
    if (slice < in_flight || !rules_.orders) return Answer::kGoOn;
    for (uint32_t i = 0; i < lanes(); ++i) {
      const uint64_t last = (slice - in_flight + 1) * parts_of(i) - 1;
      if (drives(i)) machine.behind(lane, i, last, kAllOps);
    }
    return Answer::kGoOn;
  }

  void open(Machine& machine, Position& lane, const LanePlan& plan) {
    // A rule that tests break: the region counts as read but for its last frame.
    const uint64_t early = rules_.late_release ? 0 : plan.advance;
    const uint64_t read = lane.progress - (early < lane.progress ? early : 0);
    lane.frame = take_frame(plan, cursors_->lanes[lane.lane], cursors_->cells, read);
    lane.open = true;
    machine.opened(lane);
  }

  [[gnu::always_inline]] Answer execute(Machine& machine, Position& lane, const Op& op) {
    const uint64_t cell = lane.frame.cell + uint64_t{op.value} * kCellStride;
    switch (op.code) {
      case OpCode::kMove:
        return machine.move(lane, op);
      case OpCode::kReadPeer:
        return machine.read(lane, op);
      case OpCode::kSignal:
        return machine.signal(lane, lane.progress + op.value);
      case OpCode::kWait:
        return machine.reached(lane, op.peer, lane.lane, lane.progress + op.value);
      case OpCode::kRaise:
        return machine.raise(lane, cell, lane.progress + 1);
      case OpCode::kWaitCell:
        return machine.raised(lane, op.peer, cell, lane.progress + 1);
      case OpCode::kCredit:
        return credit(machine, lane);
      case OpCode::kAfter:
        return after(machine, lane, op.peer, op.value);
      case OpCode::kStreamReceive:
      case OpCode::kStreamSend:
        return machine.post(lane, op);
      case OpCode::kStreamArrived:
        return machine.arrived(lane, op);
      case OpCode::kStreamSent:
        // A lane waits for what it sent before it closes the slice.
        if (const uint32_t sender = sender_of(*plan_, op, lane.lane);
            lanes_[sender].slice > lane.slice) {
          return after(machine, lane, sender, kAllOps);
        }
        return machine.sent(lane, op);
      case OpCode::kLevel:
        if constexpr (requires { machine.level(lane, op); }) {
          return machine.level(lane, op);
        } else {
          return Answer::kFailed;
        }
      case OpCode::kEnter:
      case OpCode::kWaitEnter:
        break;  // of the prologue only: verify_plans() refuses them elsewhere
    }
    return Answer::kGoOn;
  }

  Answer credit(Machine& machine, const Position& at) {
    return rules_.credit ? await_credit(machine, at, *cursors_) : Answer::kGoOn;
  }

  /// The slice of another lane that has the bytes of this one's, as far as all of them are there.
  uint64_t same_part_or_last(const Position& lane, uint32_t other) const {
    const uint64_t mine = parts_of(lane.lane), theirs = parts_of(other);
    if (mine == theirs) return lane.slice;
    const uint64_t first = lane.slice / mine * theirs;
    return rules_.last_part ? first + theirs - 1 : first;
  }

  Answer after(Machine& machine, Position& lane, uint32_t index, uint32_t ops) {
    const Position& other = lanes_[index];
    const uint64_t slice = same_part_or_last(lane, index);
    const uint32_t passed = other.op - plan_->lanes[index].begin;
    const bool has_passed = other.slice == slice ? passed >= ops : other.slice > slice;
    if (!rules_.after) return Answer::kGoOn;
    if (!has_passed) return Answer::kNotYet;
    if (rules_.orders) machine.behind(lane, index, slice, ops);
    return Answer::kGoOn;
  }

  const Engine engine_;
  [[no_unique_address]] Rules rules_;
  const Plan* plan_ = nullptr;
  Cursors* cursors_ = nullptr;
  Phase phase_ = Phase::kDone;
  Position ends_;
  std::array<Position, kMaxLanes> lanes_;
  std::array<uint64_t, kMaxLanes> base_{};  // the lanes' counters when the call began
};

}  // namespace tutti::plan
