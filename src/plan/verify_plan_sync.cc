// Waits and signals: the order between threads, and what a walk is answered.
#include <algorithm>

#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {

Machine::Context Machine::context_of(uint32_t rank, const Position& at) const {
  const Plan& plan = plan_of(rank);
  const auto& ops = at.phase == Phase::kPrologue   ? plan.prologue
                    : at.phase == Phase::kEpilogue ? plan.epilogue
                                                   : plan.ops;
  return {rank, thread_of(rank, at.lane), &at, at.op < ops.size() ? &ops[at.op] : nullptr};
}

PlanEvent Machine::event_of(const Context& at) const {
  const Position& where = *at.at;
  return {ranks_[at.rank].call, static_cast<uint32_t>(where.slice), where.op, where.phase};
}

void Machine::signal(const Context& at, uint64_t value) {
  CounterHistory& counter = counters_[at.thread];
  if (value < counter.value) refuse_at(at, "makes a counter fall");
  begin(at.thread, event_of(at));
  counter.value = value;
  counter.signals.push_back({value, threads_[at.thread].clock});
}

// Takes over what the first sufficient signal carries: nothing more is certain.
bool Machine::reached(uint32_t thread, uint32_t peer, uint32_t lane, uint64_t progress) {
  const CounterHistory& counter = counters_[thread_of(peer, lane)];
  if (counter.value < progress) return false;
  if (progress <= kFirstProgress) return true;
  const auto first = std::lower_bound(
      counter.signals.begin(), counter.signals.end(), progress,
      [](const CounterHistory::Signal& signal, uint64_t value) { return signal.value < value; });
  threads_[thread].clock.join(first->clock);
  return true;
}

bool Machine::passed(const Context& at, uint32_t lane, uint64_t progress) {
  const auto others = [&](uint32_t rank) { return rank != at.rank && near(rank, at.rank); };
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (others(rank) && counters_[thread_of(rank, lane)].value < progress) return false;
  }
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (others(rank)) reached(at.thread, rank, lane, progress);
  }
  return true;
}

// A flag is awaited by its exact value: to raise it again before all have seen it is a race on its
// bytes. The addresses published at entry are part of it.
void Machine::raise(const Context& at, uint64_t cell, uint64_t flag) {
  begin(at.thread, event_of(at));
  const Place bytes = flag_place(at.rank, cell, at.op->code == OpCode::kEnter);
  const Part parts[] = {{0, bytes.range.size(), kUndefined}};
  write(bytes, at.thread, parts);
  ranks_[at.rank].cells[flag_number(cell)] = {flag, threads_[at.thread].clock};
}

bool Machine::await_cell(const Context& at, uint32_t peer, uint64_t cell, uint64_t flag) {
  const Cell& awaited = ranks_[peer].cells[flag_number(cell)];
  if (awaited.flag != flag) return false;
  threads_[at.thread].clock.join(awaited.clock);
  begin(at.thread, event_of(at));
  read(flag_place(peer, cell, at.op->code == OpCode::kWaitEnter), at.thread, parts_);
  return true;
}

// A cell has a flag of its own, and one for each tiny part.
size_t Machine::flag_number(uint64_t cell) {
  const uint64_t inside = cell % kCellStride;
  const uint64_t part = inside == 0 ? 0 : 1 + (inside - kTinyBegin) / kTinyStride;
  return cell / kCellStride * (1 + kTinyParts) + part;
}

Machine::Place Machine::flag_place(uint32_t rank, uint64_t cell, bool entry) const {
  const uint64_t bytes = entry ? 3 * sizeof(uint64_t) : sizeof(uint64_t);
  return {memory_of(rank, kCells), {cell, cell + bytes}};
}

// Checks that a lane leaves nothing open when its slice ends.
void Machine::check_closed(const Context& at) {
  const Position& where = *at.at;
  const LanePlan& plan = plan_of(at.rank).lanes[where.lane];
  const Lane& lane = ranks_[at.rank].lanes[where.lane];
  const std::string who =
      "rank " + std::to_string(at.rank) + " lane " + std::to_string(where.lane) + " ends slice " +
      std::to_string(where.slice) + " of call " + std::to_string(ranks_[at.rank].call);
  for (const auto* transfers : {&lane.received, &lane.sent}) {
    for (const PostedTransfer& transfer : *transfers) {
      const bool open = transfer.progress == where.progress && !transfer.awaited;
      if (open) refuse(who + " without awaiting what it posted");
    }
  }
  const uint64_t counter = counters_[at.thread].value;
  if (counter == where.progress + plan.advance) return;
  refuse(who + " with its counter at " + std::to_string(counter - where.progress) +
         "; the others count on " + std::to_string(plan.advance));
}

Answer Machine::RankMachine::went_on(bool went_on) {
  if (!all_.ok()) return Answer::kFailed;
  if (!went_on) return Answer::kNotYet;
  if (all_.options_.in_one_queue) all_.ranks_[rank_].queue.pop_front();
  return Answer::kGoOn;
}

bool Machine::RankMachine::is_behind_others(const Position& at) const {
  if (!all_.options_.in_one_queue) return false;
  const std::deque<uint8_t>& queue = all_.ranks_[rank_].queue;
  return queue.empty() || queue.front() != at.lane;
}

Answer Machine::RankMachine::enter(const Position& at) {
  if (is_behind_others(at)) return Answer::kNotYet;
  all_.raise(all_.context_of(rank_, at), at.frame.cell, at.progress);
  return went_on(true);
}

Answer Machine::RankMachine::entered(const Position& at, uint32_t member) {
  if (is_behind_others(at)) return Answer::kNotYet;
  const Machine::Context context = all_.context_of(rank_, at);
  if (!all_.await_cell(context, member, at.frame.cell, at.progress)) return went_on(false);
  all_.ranks_[rank_].entered[member] = all_.ranks_[rank_].call + 1;
  return went_on(true);
}

Answer Machine::RankMachine::move(const Position& at, const Op& /*op*/) {
  if (is_behind_others(at)) return Answer::kNotYet;
  all_.move(all_.context_of(rank_, at));
  return went_on(true);
}

Answer Machine::RankMachine::signal(const Position& at, uint64_t value) {
  if (is_behind_others(at)) return Answer::kNotYet;
  all_.signal(all_.context_of(rank_, at), value);
  return went_on(true);
}

Answer Machine::RankMachine::reached(const Position& at, uint32_t member, uint32_t lane,
                                     uint64_t value) {
  if (is_behind_others(at)) return Answer::kNotYet;
  return went_on(all_.reached(all_.thread_of(rank_, at.lane), member, lane, value));
}

Answer Machine::RankMachine::passed(const Position& at, uint32_t lane, uint64_t value) {
  if (is_behind_others(at)) return Answer::kNotYet;
  return went_on(all_.passed(all_.context_of(rank_, at), lane, value));
}

Answer Machine::RankMachine::raise(const Position& at, uint64_t cell, uint64_t flag) {
  if (is_behind_others(at)) return Answer::kNotYet;
  all_.raise(all_.context_of(rank_, at), cell, flag);
  return went_on(true);
}

Answer Machine::RankMachine::raised(const Position& at, uint32_t member, uint64_t cell,
                                    uint64_t flag) {
  if (is_behind_others(at)) return Answer::kNotYet;
  return went_on(all_.await_cell(all_.context_of(rank_, at), member, cell, flag));
}

Answer Machine::RankMachine::post(const Position& at, const Op& op) {
  if (is_behind_others(at)) return Answer::kNotYet;
  all_.post(all_.context_of(rank_, at), op.code == OpCode::kStreamSend);
  return went_on(true);
}

Answer Machine::RankMachine::arrived(const Position& at, const Op& /*op*/) {
  if (is_behind_others(at)) return Answer::kNotYet;
  return went_on(all_.await_transfer(all_.context_of(rank_, at), false));
}

Answer Machine::RankMachine::sent(const Position& at, const Op& /*op*/) {
  if (is_behind_others(at)) return Answer::kNotYet;
  return went_on(all_.await_transfer(all_.context_of(rank_, at), true));
}

Answer Machine::RankMachine::level(const Position& at, const Op& /*op*/) {
  if (is_behind_others(at)) return Answer::kNotYet;
  return went_on(all_.level(all_.context_of(rank_, at)));
}

void Machine::RankMachine::fork() {
  for (uint32_t i = 1; i < all_.plan_of(rank_).lanes.size(); ++i) {
    if (all_.is_foreign(rank_, i)) continue;
    all_.threads_[all_.thread_of(rank_, i)].clock.join(
        all_.threads_[all_.thread_of(rank_, 0)].clock);
  }
}

void Machine::RankMachine::opened(const Position& at) {
  Machine::Lane& lane = all_.ranks_[rank_].lanes[at.lane];
  lane.passed.push_back({all_.threads_[all_.thread_of(rank_, at.lane)].clock});
}

void Machine::RankMachine::closed(const Position& at) {
  all_.check_closed(all_.context_of(rank_, at));
}

void Machine::RankMachine::stepped(const Position& at) {
  if (all_.plan_of(rank_).lanes.size() == 1) return;  // no lane asks
  Machine::Lane& lane = all_.ranks_[rank_].lanes[at.lane];
  lane.passed.back().push_back(all_.threads_[all_.thread_of(rank_, at.lane)].clock);
}

void Machine::RankMachine::behind(const Position& at, uint32_t lane, uint64_t slice, uint32_t ops) {
  const auto& passed = all_.ranks_[rank_].lanes[lane].passed;
  if (passed.size() <= slice) return;  // it has not begun, and need not have
  const Clock& clock = ops == kAllOps ? passed[slice].back() : passed[slice][ops];
  all_.threads_[all_.thread_of(rank_, at.lane)].clock.join(clock);
}

void Machine::RankMachine::join() { all_.join_lanes(rank_, false); }

}  // namespace tutti::plan::verifier
