// Waits and signals: the order between threads.
#include <algorithm>

#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {

bool Machine::execute(const Context& at) {
  const Op& op = *at.op;
  const Lane& lane = ranks_[at.rank].lanes[at.lane];
  const uint64_t cell = ranks_[at.rank].cell + uint64_t{op.value} * kCellStride;
  switch (op.code) {
    case OpCode::kMove:
    case OpCode::kReadPeer:
      move(at);
      return true;
    case OpCode::kSignal:
      signal(at);
      return true;
    case OpCode::kWait:
      return reached(at.thread, op.peer, at.lane, lane.progress + op.value);
    case OpCode::kRaise:
      raise(at, cell, lane.progress + 1);
      return true;
    case OpCode::kWaitCell:
      return await_cell(at, cell, lane.progress + 1);
    case OpCode::kCredit:
      return credit(at);
    case OpCode::kAfter:
      return after(at);
    case OpCode::kStreamReceive:
      post(at, false);
      return true;
    case OpCode::kStreamSend:
      post(at, true);
      return true;
    case OpCode::kStreamArrived:
    case OpCode::kStreamSent:
      return await_transfer(at);
    case OpCode::kEnter:
    case OpCode::kWaitEnter:
      break;
  }
  refuse_at(at, "belongs into the prologue");
  return true;
}

Deed Machine::deed_of(const Context& at) const {
  const Rank& state = ranks_[at.rank];
  if (state.phase != Phase::kSlices) return {state.call, 0, state.next, state.phase};
  const Lane& lane = state.lanes[at.lane];
  return {state.call, static_cast<uint32_t>(lane.slice), lane.op, state.phase};
}

void Machine::signal(const Context& at) {
  Counter& counter = counters_[at.thread];
  const uint64_t value = ranks_[at.rank].lanes[at.lane].progress + at.op->value;
  if (value < counter.value) refuse_at(at, "makes a counter fall");
  begin(at.thread, deed_of(at));
  counter.value = value;
  counter.signals.push_back({value, threads_[at.thread].clock});
}

// Takes over what the first sufficient signal carries: nothing more is certain.
bool Machine::reached(uint32_t thread, uint32_t peer, uint32_t lane, uint64_t progress) {
  const Counter& counter = counters_[thread_of(peer, lane)];
  if (counter.value < progress) return false;
  if (progress <= kFirstProgress) return true;
  const auto first = std::lower_bound(
      counter.signals.begin(), counter.signals.end(), progress,
      [](const Counter::Signal& signal, uint64_t value) { return signal.value < value; });
  threads_[thread].clock.join(first->clock);
  return true;
}

bool Machine::credit(const Context& at) {
  Rank& state = ranks_[at.rank];
  Ring& ring = state.lanes[at.lane].ring;
  if (!ring.credited()) {
    if (!passed(at, at.lane, ring.required())) return false;
    ring.set_credited();
  }
  if (at.lane != 0 || state.cell_ring.credited()) return true;
  if (!passed(at, 0, state.cell_ring.required())) return false;
  state.cell_ring.set_credited();
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
  begin(at.thread, deed_of(at));
  const Place bytes = flag_place(at.rank, cell, at.op->code == OpCode::kEnter);
  const Part parts[] = {{0, bytes.range.size(), kUndefined}};
  write(bytes, at.thread, parts);
  ranks_[at.rank].cells[flag_number(cell)] = {flag, threads_[at.thread].clock};
}

bool Machine::await_cell(const Context& at, uint64_t cell, uint64_t flag) {
  const Cell& awaited = ranks_[at.op->peer].cells[flag_number(cell)];
  if (awaited.flag != flag) return false;
  threads_[at.thread].clock.join(awaited.clock);
  begin(at.thread, deed_of(at));
  read(flag_place(at.op->peer, cell, at.op->code == OpCode::kWaitEnter), at.thread, parts_);
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

bool Machine::after(const Context& at) {
  const Rank& state = ranks_[at.rank];
  const Lane& other = state.lanes[at.op->peer];
  const uint64_t slice = state.lanes[at.lane].slice;
  const uint32_t first = plan_of(at.rank).lanes[at.op->peer].begin;
  const bool has_passed =
      other.slice == slice ? other.op - first >= at.op->value : other.slice > slice;
  if (!has_passed) return false;
  if (other.passed.size() <= slice) return true;  // it has not begun, and need not have
  threads_[at.thread].clock.join(other.passed[slice][at.op->value]);
  return true;
}

}  // namespace tutti::plan::verifier
