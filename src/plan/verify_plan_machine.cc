// Calls: which rank is in which, what the user does around them, and what must hold when one ends.
#include "src/plan/verify_plan_machine.h"

#include <algorithm>
#include <utility>

#include "src/plan/lane_turns.h"

namespace tutti::plan::verifier {
namespace {

/// Writes down which lane asks, question by question.
class Lister {
 public:
  static constexpr uint64_t kSlicesATurn = LaneTurns::kSlices;

  void start(const Plan& plan) {
    plan_ = &plan;
    turns_.start(plan);
  }
  std::deque<uint8_t>& list() { return list_; }

  Answer enter(const Position& at) { return asks(at); }
  Answer entered(const Position& at, uint32_t) { return asks(at); }
  Answer move(const Position& at, const Op& op) {
    const Answer answer = does(at);
    if (answer == Answer::kGoOn && op.source_count > 1) turns_.fold(at.lane);
    return answer;
  }
  Answer read(const Position& at, const Op&) { return does(at); }
  Answer signal(const Position& at, uint64_t) { return tells(at); }
  Answer reached(const Position& at, uint32_t, uint32_t, uint64_t) { return waits(at); }
  Answer own_reached(const Position& at, uint32_t, uint64_t) { return waits(at); }
  Answer passed(const Position& at, uint32_t, uint64_t) { return waits(at); }
  Answer raise(const Position& at, uint64_t, uint64_t) { return tells(at); }
  Answer raised(const Position& at, uint32_t, uint64_t, uint64_t) { return waits(at); }
  // A message lets others go on, as a signal does. A receive, and a send that is out, are none of
  // this engine's affairs (exec::NetworkMachine).
  Answer post(const Position& at, const Op& op) {
    return op.code == OpCode::kStreamSend ? tells(at) : asks(at);
  }
  Answer arrived(const Position& at, const Op&) { return waits(at); }
  Answer sent(const Position& at, const Op&) { return asks(at); }
  Answer level(const Position& at, const Op& op) {
    if (turns_.gives_up_level(at.lane)) return Answer::kNotYet;
    turns_.level(*plan_, at.lane, at.slice, op.value);
    return asks(at);
  }
  void fork() {}
  void opened(const Position&) {}
  void closed(const Position& at) { turns_.close(at.lane); }
  void stepped(const Position&) {}
  void behind(const Position&, uint32_t, uint64_t, uint32_t) {}
  void join() {}

 private:
  Answer asks(const Position& at) {
    list_.push_back(static_cast<uint8_t>(at.lane));
    return Answer::kGoOn;
  }
  Answer does(const Position& at) {
    return turns_.gives_up_work(at.lane) ? Answer::kNotYet : asks(at);
  }
  Answer tells(const Position& at) {
    return turns_.gives_up_signal(at.lane) ? Answer::kNotYet : asks(at);
  }
  Answer waits(const Position& at) {
    if (at.phase == Phase::kSlices && turns_.gives_up_wait(at.lane)) return Answer::kNotYet;
    turns_.wait(at.lane);
    return asks(at);
  }

  const Plan* plan_ = nullptr;
  LaneTurns turns_;
  std::deque<uint8_t> list_;
};

// The user's buffers of a rank in one call; `in_place` puts the smaller one into the larger one.
uint64_t larger_bytes(const PlanSet& set, uint32_t rank, uint64_t element_bytes) {
  return std::max(elements_of(set, rank, false), elements_of(set, rank, true)) * element_bytes;
}

}  // namespace

Machine::Machine(std::span<const PlanSet* const> calls, const VerifyPlanOptions& options)
    : calls_(calls),
      options_(options),
      group_(calls.front()->group),
      total_calls_(static_cast<uint32_t>(calls.size()) * options.rounds),
      values_(4 * static_cast<size_t>(calls.front()->group->ranks())) {
  for (const PlanSet* set : calls) {
    for (const Plan& plan : set->plans) {
      lanes_ = std::max(lanes_, static_cast<uint32_t>(plan.lanes.size()));
      for (const LanePlan& lane : plan.lanes) {
        ring_region_ = std::max(ring_region_, lane.frame_bytes);
        cell_region_ = std::max<uint64_t>(cell_region_, lane.cells);
        engines_ = std::max<size_t>(engines_, size_t{1} + static_cast<size_t>(lane.engine));
      }
    }
  }
  constexpr uint64_t kLine = 64;
  const uint64_t lines = (ring_region_ + kLine - 1) / kLine;
  ring_region_ = (lines + options.regions_per_frame - 1) / options.regions_per_frame * kLine *
                 options.frames_per_region;
  cell_region_ *= options.frames_per_region;
  const auto ranks = static_cast<uint32_t>(group_->ranks());
  for (uint32_t i = 0; i < ranks * lanes_; ++i) threads_.push_back({i / lanes_, i % lanes_});
  counters_.resize(threads_.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) add_rank(rank);
  for (Thread& thread : threads_) thread.clock = Clock(threads_.size());
}

void Machine::add_rank(uint32_t rank) {
  Rank& state = ranks_.emplace_back();
  const CellCursor cells(static_cast<uint32_t>(cell_region_), options_.regions);
  for (size_t engine = 0; engine < engines_; ++engine) {
    Drive& drive = state.drives.emplace_back(
        Drive{{}, Walk<RankMachine, FaultyRules>(static_cast<Engine>(engine), options_.walk)});
    drive.cursors.cells = cells;
    for (LaneCursor& lane : drive.cursors.lanes) {
      lane = {kFirstProgress, RingCursor(ring_region_, options_.regions)};
    }
  }
  state.cells.resize(cells.size() * (1 + kTinyParts));
  state.entered.resize(static_cast<size_t>(group_->ranks()));
  state.lanes.resize(lanes_);
  uint64_t user = 0, scratch = 0, landing = 0, encoded = 0;
  for (const PlanSet* set : calls_) {
    const Plan& plan = set->plans[rank];
    user = std::max(user, larger_bytes(*set, rank, plan.element_bytes));
    scratch = std::max(scratch, plan.scratch_bytes * scratch_copies(plan));
    landing = std::max(landing, all_landing_bytes(plan));
    encoded = std::max(encoded, plan.encoded_bytes * plan.slices_in_flight * widening_of(plan));
  }
  for (uint64_t bytes : {user, user, cells.size() * kCellStride, scratch, landing, encoded}) {
    memories_.emplace_back(bytes, values_);
  }
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    memories_.emplace_back(ring_region_ * options_.regions, values_);
    add_transfers(rank, lane);
  }
}

void Machine::add_transfers(uint32_t rank, uint32_t lane) {
  size_t receives = 0, sends = 0;
  for (const PlanSet* set : calls_) {
    const Plan& plan = set->plans[rank];
    if (lane >= plan.lanes.size()) continue;
    receives = std::max<size_t>(receives, plan.lanes[lane].receives);
    sends = std::max<size_t>(sends, plan.lanes[lane].sends);
  }
  const auto add = [&](std::vector<PostedTransfer>& transfers, size_t count, const char* engine) {
    for (size_t i = 0; i < count; ++i) {
      transfers.push_back({.thread = static_cast<uint32_t>(threads_.size())});
      threads_.push_back({rank, lane, engine});
    }
  };
  add(ranks_[rank].lanes[lane].received, receives, "receiving for ");
  add(ranks_[rank].lanes[lane].sent, sends, "sending for ");
}

Status Machine::run() {
  for (bool moved = true; moved && ok();) {
    moved = false;
    for (uint32_t rank = 0; rank < ranks_.size() && ok(); ++rank) moved = advance(rank) || moved;
  }
  if (!ok()) return failure_;
  const bool finished = std::all_of(ranks_.begin(), ranks_.end(),
                                    [&](const Rank& rank) { return rank.call == total_calls_; });
  return finished ? Status() : deadlock();
}

// Goes on until the rank waits. True if it came any further.
bool Machine::advance(uint32_t rank) {
  Rank& state = ranks_[rank];
  RankMachine machine(*this, rank);
  bool moved = false;
  while (ok() && state.call < total_calls_) {
    if (!state.inside) enter_call(rank);
    bool done = true;
    bool again = false;
    for (Drive& drive : state.drives) {
      if (drive.walk.phase() == Phase::kDone) continue;
      const Progress progress = drive.walk.advance(machine);
      again = again || progress == Progress::kMoved || progress == Progress::kDone;
      done = done && progress == Progress::kDone;
    }
    moved = moved || again;
    if (done && ok()) {
      leave_call(rank);
      ++state.call;
      moved = true;
    } else if (!again) {
      return moved;
    }
  }
  return moved;
}

std::deque<uint8_t> Machine::queue_of(const Plan& plan, Cursors cursors) const {
  Lister lister;
  lister.start(plan);
  Walk<Lister, FaultyRules> walk(plan.lanes[0].engine, options_.walk);
  walk.start(plan, cursors);
  while (walk.advance(lister) == Progress::kMoved) {
  }
  return std::move(lister.list());
}

void Machine::enter_call(uint32_t rank) {
  Rank& state = ranks_[rank];
  const Plan& plan = plan_of(rank);
  const uint32_t thread = thread_of(rank, 0);
  state.inside = true;
  begin(thread, {.call = state.call, .by_user = true});
  state.entries.push_back(actor(thread).now);
  const Place output = user_place(rank, true, state.call);
  const Place input = user_place(rank, false, state.call);
  const Part garbage[] = {{0, output.range.size(), kUndefined}};
  write(output, thread, garbage);
  const Value mine{{{0, static_cast<uint16_t>(rank), static_cast<uint16_t>(state.call)}}};
  const Part data[] = {{0, input.range.size(), values_.of(mine)}};
  write(input, thread, data);
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    state.lanes[i].passed.clear();
    // Another engine begins behind what the user did; this one's walk forks its own lanes.
    if (is_foreign(rank, i)) threads_[thread_of(rank, i)].clock.join(threads_[thread].clock);
  }
  if (options_.in_one_queue)
    state.queue = queue_of(plan, state.drives[static_cast<size_t>(plan.lanes[0].engine)].cursors);
  for (Drive& drive : state.drives) drive.walk.start(plan, drive.cursors);
}

// The call is over when all of its engines are done.
void Machine::join_lanes(uint32_t rank, bool of_other_engines) {
  for (uint32_t i = 1; i < plan_of(rank).lanes.size(); ++i) {
    if (is_foreign(rank, i) != of_other_engines) continue;
    threads_[thread_of(rank, 0)].clock.join(threads_[thread_of(rank, i)].clock);
  }
}

void Machine::leave_call(uint32_t rank) {
  const uint32_t call = ranks_[rank].call;
  const uint32_t thread = thread_of(rank, 0);
  ranks_[rank].inside = false;
  join_lanes(rank, true);
  begin(thread, {.call = call, .phase = Phase::kDone, .by_user = true});
  if (set_of(call).shape.collective == schedule::Collective::kBarrier) check_entries(rank);
  check_output(rank);
  for (bool output : {false, true}) {
    const Place buffer = user_place(rank, output, call);
    const Part garbage[] = {{0, buffer.range.size(), kUndefined}};
    write(buffer, thread, garbage);
  }
}

// A barrier: nobody returns before everybody has entered.
void Machine::check_entries(uint32_t rank) {
  const uint32_t call = ranks_[rank].call;
  const Clock& mine = threads_[thread_of(rank, 0)].clock;
  for (uint32_t other = 0; other < ranks_.size(); ++other) {
    const auto& entries = ranks_[other].entries;
    if (call < entries.size() && mine.knows(entries[call])) continue;
    refuse("rank " + std::to_string(rank) + " may return from barrier " + std::to_string(call) +
           " before rank " + std::to_string(other) + " has entered it");
  }
}

}  // namespace tutti::plan::verifier
