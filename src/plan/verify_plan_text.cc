// Counter-examples in words.
#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {

using std::to_string;

namespace {

std::string moves(const Op& op) {
  return to_string(op.length) + " elements, " + to_string(op.source_count) + " sources, " +
         to_string(op.target_count) + " targets";
}

}  // namespace

std::string print(const Op& op) {
  const std::string peer = to_string(op.peer), value = to_string(op.value);
  switch (op.code) {
    case OpCode::kCredit: return "credit";
    case OpCode::kMove: return "move " + moves(op);
    case OpCode::kReadPeer: return "read from rank " + peer + ", " + moves(op);
    case OpCode::kSignal: return "signal " + value;
    case OpCode::kWait: return "wait for " + value + " of rank " + peer;
    case OpCode::kRaise: return "raise cell " + value;
    case OpCode::kWaitCell: return "wait for cell " + value + " of rank " + peer;
    case OpCode::kEnter: return "enter";
    case OpCode::kWaitEnter: return "wait for rank " + peer + " to enter";
    case OpCode::kAfter: return "wait for op " + value + " of lane " + peer;
    case OpCode::kStreamReceive: return "post receive " + value + " from rank " + peer;
    case OpCode::kStreamSend: return "post send " + value + " to rank " + peer;
    case OpCode::kStreamArrived: return "wait for receive " + value;
    case OpCode::kStreamSent: return "wait for send " + value + " of lane " + to_string(op.lane);
  }
  return "an unknown micro-operation";
}

std::string Machine::describe(const Deed& deed, uint32_t rank) const {
  const std::string call = to_string(deed.call);
  const Plan& plan = set_of(deed.call).plans[rank];
  switch (deed.phase) {
    case Phase::kEntry: return "its user before it enters call " + call;
    case Phase::kReturn: return "its user after it returned from call " + call;
    case Phase::kPrologue:
      return "call " + call + " prologue op " + to_string(deed.op) +
             (deed.op < plan.prologue.size() ? ": " + print(plan.prologue[deed.op]) : "");
    case Phase::kEpilogue:
      return "call " + call + " epilogue op " + to_string(deed.op) +
             (deed.op < plan.epilogue.size() ? ": " + print(plan.epilogue[deed.op]) : "");
    case Phase::kSlices: break;
  }
  return "call " + call + " slice " + to_string(deed.slice) + " op " + to_string(deed.op) +
         (deed.op < plan.ops.size() ? ": " + print(plan.ops[deed.op]) : "");
}

std::string Machine::describe(Moment moment) const {
  const Thread& thread = threads_[moment.thread];
  return std::string(thread.engine) + "rank " + to_string(thread.rank) + " lane " +
         to_string(thread.lane) + " (" + describe(thread.deeds[moment.time - 1], thread.rank) + ")";
}

std::string Machine::describe_memory(uint32_t memory) const {
  static constexpr const char* kNames[] = {"input", "output", "cells", "scratch", "landing zone"};
  const uint32_t per_rank = kSlots + lanes_;
  const uint32_t kind = memory % per_rank;
  const std::string name =
      kind < kSlots ? kNames[kind] : "ring of lane " + to_string(kind - kSlots);
  return "rank " + to_string(memory / per_rank) + "'s " + name;
}

void Machine::refuse(const std::string& what) {
  if (!ok()) return;  // the first one is the cause
  const schedule::Shape& shape = calls_.front()->shape;
  failure_ = Status::internal_error(std::string(schedule::name_of(shape.collective)) + " of " +
                                    to_string(shape.ranks) + " ranks: " + what);
}

void Machine::refuse_at(const Context& at, const std::string& what) {
  refuse("rank " + to_string(at.rank) + " lane " + to_string(at.lane) + " (" +
         describe(deed_of(at), at.rank) + ") " + what);
}

void Machine::refuse_race(const Place& place, uint32_t thread, const Conflict& conflict,
                          bool writes) {
  refuse("race for byte " + to_string(conflict.byte) + " of " + describe_memory(place.memory) +
         ": " + describe(conflict.earlier) + (conflict.wrote ? " writes" : " reads") + " it and " +
         describe(actor(thread).now) + (writes ? " writes it" : " reads it") +
         ", and nothing says which comes first");
}

std::string Machine::describe_wait(uint32_t rank) const {
  const Rank& state = ranks_[rank];
  std::string text = "rank " + to_string(rank) + ": ";
  if (state.phase != Phase::kSlices) {
    return text + describe({state.call, 0, state.next, state.phase}, rank);
  }
  const Plan& plan = plan_of(rank);
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    const Lane& lane = state.lanes[i];
    if (lane.slice == plan.slices) continue;
    const Deed deed{state.call, static_cast<uint32_t>(lane.slice), lane.op, Phase::kSlices};
    if (!text.ends_with(": ")) text += "; ";
    text += "lane " + to_string(i) + " " + describe(deed, rank);
  }
  return text;
}

Status Machine::deadlock() const {
  std::string text = "all wait for ever";
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const bool done = ranks_[rank].call == total_calls_;
    text += "; " + (done ? "rank " + to_string(rank) + " has returned" : describe_wait(rank));
  }
  const schedule::Shape& shape = calls_.front()->shape;
  return Status::internal_error(std::string(schedule::name_of(shape.collective)) + " of " +
                                to_string(shape.ranks) + " ranks: " + text);
}

}  // namespace tutti::plan::verifier
