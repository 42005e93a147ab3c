// Control: which rank is where in its calls, slices and micro-operations. The phases and their
// order are those of exec::HostExecutor.
#include "src/plan/verify_plan_machine.h"

#include <algorithm>

namespace tutti::plan::verifier {
namespace {

// The user's buffers of a rank in one call; `in_place` puts the smaller one into the larger one.
uint64_t larger_bytes(const PlanSet& set, uint32_t rank, uint64_t element_bytes) {
  return std::max(elements_of(set, rank, false), elements_of(set, rank, true)) * element_bytes;
}

}  // namespace

Machine::Machine(std::span<const PlanSet* const> calls, const VerifyOptions& options)
    : calls_(calls),
      options_(options),
      group_(calls.front()->group),
      total_calls_(static_cast<uint32_t>(calls.size()) * options.rounds),
      values_(4 * static_cast<size_t>(calls.front()->group.ranks)) {
  for (const PlanSet* set : calls) {
    for (const Plan& plan : set->plans) {
      lanes_ = std::max(lanes_, static_cast<uint32_t>(plan.lanes.size()));
      for (const LanePlan& lane : plan.lanes) {
        ring_region_ = std::max(ring_region_, lane.frame_bytes);
        cell_region_ = std::max<uint64_t>(cell_region_, lane.cells);
      }
    }
  }
  ring_region_ *= options.frames_per_region;
  cell_region_ *= options.frames_per_region;
  const auto ranks = static_cast<uint32_t>(group_.ranks);
  for (uint32_t i = 0; i < ranks * lanes_; ++i) threads_.push_back({i / lanes_, i % lanes_});
  counters_.resize(threads_.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) add_rank(rank);
  for (Thread& thread : threads_) thread.clock = Clock(threads_.size());
}

void Machine::add_rank(uint32_t rank) {
  Rank& state = ranks_.emplace_back();
  state.cell_ring = Ring(options_.regions, cell_region_, options_.early_release);
  state.cells.resize(state.cell_ring.size() * (1 + kTinyParts));
  state.entered.resize(static_cast<size_t>(group_.ranks));
  state.lanes.resize(lanes_);
  uint64_t user = 0, scratch = 0, landing = 0;
  for (const PlanSet* set : calls_) {
    const Plan& plan = set->plans[rank];
    user = std::max(user, larger_bytes(*set, rank, plan.element_bytes));
    scratch = std::max(scratch, plan.scratch_bytes * plan.slices_in_flight);
    landing = std::max(landing, plan.landing_bytes);
  }
  for (uint64_t bytes : {user, user, state.cell_ring.size() * kCellStride, scratch, landing}) {
    memories_.emplace_back(bytes, values_);
  }
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    state.lanes[lane].ring = Ring(options_.regions, ring_region_, options_.early_release);
    memories_.emplace_back(state.lanes[lane].ring.size(), values_);
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
  const auto add = [&](std::vector<Transfer>& transfers, size_t count, const char* engine) {
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
  bool moved = false;
  while (ok() && state.call < total_calls_) {
    bool done = true;
    switch (state.phase) {
      case Phase::kEntry:
        enter_call(rank);
        break;
      case Phase::kPrologue:
        done = run_prologue(rank);
        break;
      case Phase::kSlices:
        done = run_lanes(rank, moved);
        break;
      case Phase::kEpilogue:
        done = run_epilogue(rank);
        break;
      case Phase::kReturn:
        leave_call(rank);
        break;
    }
    if (!done) return moved;
    moved = true;
    if (state.phase == Phase::kReturn) {
      ++state.call;
      state.phase = Phase::kEntry;
    } else {
      state.phase = static_cast<Phase>(static_cast<int>(state.phase) + 1);
    }
    state.next = 0;
  }
  return moved;
}

void Machine::enter_call(uint32_t rank) {
  Rank& state = ranks_[rank];
  const Plan& plan = plan_of(rank);
  const uint32_t thread = thread_of(rank, 0);
  begin(thread, {state.call, 0, 0, Phase::kEntry});
  state.entries.push_back(actor(thread).now);
  const Place output = user_place(rank, true, state.call);
  const Place input = user_place(rank, false, state.call);
  const Part garbage[] = {{0, output.range.size(), kUndefined}};
  write(output, thread, garbage);
  const Value mine{{{0, static_cast<uint16_t>(rank), static_cast<uint16_t>(state.call)}}};
  const Part data[] = {{0, input.range.size(), values_.of(mine)}};
  write(input, thread, data);
  if (!plan.prologue.empty()) take_cells(state, {.cells = 1});
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    Lane& lane = state.lanes[i];
    lane.slice = 0;
    lane.op = plan.lanes[i].begin;
    lane.open = false;
    lane.passed.clear();
  }
}

bool Machine::run_prologue(uint32_t rank) {
  Rank& state = ranks_[rank];
  const Plan& plan = plan_of(rank);
  const uint32_t thread = thread_of(rank, 0);
  const uint64_t flag = state.lanes[0].progress;
  for (; state.next < plan.prologue.size() && ok(); ++state.next) {
    const Op& op = plan.prologue[state.next];
    const Context at{rank, 0, thread, &op};
    if (op.code == OpCode::kEnter) {
      if (!credit(at)) return false;
      raise(at, state.cell, flag);
    } else {
      if (!await_cell(at, state.cell, flag)) return false;
      state.entered[op.peer] = state.call + 1;
    }
  }
  for (uint32_t i = 1; i < plan.lanes.size(); ++i) {
    threads_[thread_of(rank, i)].clock.join(threads_[thread].clock);
  }
  return true;
}

bool Machine::run_lanes(uint32_t rank, bool& moved) {
  const Plan& plan = plan_of(rank);
  for (bool again = true; again && ok();) {
    again = false;
    for (uint32_t i = 0; i < plan.lanes.size(); ++i) again = run_lane(rank, i) || again;
    moved = moved || again;
  }
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    if (ranks_[rank].lanes[i].slice < plan.slices) return false;
  }
  join_lanes(rank);
  return true;
}

void Machine::join_lanes(uint32_t rank) {
  for (uint32_t i = 1; i < plan_of(rank).lanes.size(); ++i) {
    threads_[thread_of(rank, 0)].clock.join(threads_[thread_of(rank, i)].clock);
  }
}

bool Machine::run_lane(uint32_t rank, uint32_t index) {
  Lane& lane = ranks_[rank].lanes[index];
  const Plan& plan = plan_of(rank);
  const uint32_t thread = thread_of(rank, index);
  bool moved = false;
  while (lane.slice < plan.slices && ok()) {
    if (!lane.open) {
      if (!may_open(rank, index)) return moved;
      open_slice(rank, index);
    }
    for (; lane.op < plan.lanes[index].end && ok(); ++lane.op, moved = true) {
      if (!execute({rank, index, thread, &plan.ops[lane.op]})) return moved;
      if (plan.lanes.size() > 1) lane.passed.back().push_back(threads_[thread].clock);
    }
    if (ok()) close_slice(rank, index);
    moved = true;
  }
  return moved;
}

bool Machine::may_open(uint32_t rank, uint32_t index) {
  const Plan& plan = plan_of(rank);
  const uint64_t slice = ranks_[rank].lanes[index].slice;
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    if (slice >= ranks_[rank].lanes[i].slice + plan.slices_in_flight) return false;
  }
  if (slice < plan.slices_in_flight || plan.lanes.size() == 1) return true;
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    const Clock& end = ranks_[rank].lanes[i].passed[slice - plan.slices_in_flight].back();
    threads_[thread_of(rank, index)].clock.join(end);
  }
  return true;
}

// What exec::CellCursor does.
void Machine::take_cells(Rank& rank, const LanePlan& plan) {
  if (plan.tiny && rank.tiny_parts > 0 && rank.tiny_parts < kTinyParts) {
    ++rank.tiny_parts;
    rank.cell += kTinyStride;
    return;
  }
  rank.cell = rank.cell_ring.take(plan.cells, rank.lanes[0].progress) * kCellStride;
  rank.tiny_parts = plan.tiny ? 1 : 0;
  if (plan.tiny) rank.cell += kTinyBegin;
}

void Machine::open_slice(uint32_t rank, uint32_t index) {
  Rank& state = ranks_[rank];
  Lane& lane = state.lanes[index];
  const LanePlan& plan = plan_of(rank).lanes[index];
  lane.open = true;
  if (plan.cells > 0) take_cells(state, plan);
  lane.frame =
      plan.frame_bytes > 0 ? lane.ring.take(plan.frame_bytes, lane.progress, plan.region_bytes) : 0;
  lane.passed.push_back({threads_[thread_of(rank, index)].clock});
}

void Machine::close_slice(uint32_t rank, uint32_t index) {
  Lane& lane = ranks_[rank].lanes[index];
  const LanePlan& plan = plan_of(rank).lanes[index];
  const std::string who = "rank " + std::to_string(rank) + " lane " + std::to_string(index) +
                          " ends slice " + std::to_string(lane.slice) + " of call " +
                          std::to_string(ranks_[rank].call);
  for (const auto* transfers : {&lane.received, &lane.sent}) {
    for (const Transfer& transfer : *transfers) {
      const bool open = transfer.progress == lane.progress && !transfer.awaited;
      if (open) refuse(who + " without awaiting what it posted");
    }
  }
  const uint64_t counter = counters_[thread_of(rank, index)].value;
  if (counter != lane.progress + plan.advance) {
    refuse(who + " with its counter at " + std::to_string(counter - lane.progress) +
           "; the others count on " + std::to_string(plan.advance));
  }
  lane.progress += plan.advance;
  ++lane.slice;
  lane.op = plan.begin;
  lane.open = false;
}

bool Machine::run_epilogue(uint32_t rank) {
  Rank& state = ranks_[rank];
  const Plan& plan = plan_of(rank);
  for (; state.next < plan.epilogue.size(); ++state.next) {
    const Op& op = plan.epilogue[state.next];
    const uint64_t last = state.lanes[op.lane].progress - plan.lanes[op.lane].advance;
    if (!reached(thread_of(rank, 0), op.peer, op.lane, last + op.value)) return false;
  }
  return true;
}

void Machine::leave_call(uint32_t rank) {
  const uint32_t call = ranks_[rank].call;
  const uint32_t thread = thread_of(rank, 0);
  begin(thread, {call, 0, 0, Phase::kReturn});
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
