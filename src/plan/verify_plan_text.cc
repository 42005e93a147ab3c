// Counter-examples in words.
#include "src/plan/text.h"
#include "src/plan/verify_plan_machine.h"

namespace tutti::plan::verifier {

using std::to_string;

std::string Machine::describe(const PlanEvent& event, uint32_t rank) const {
  const std::string call = to_string(event.call);
  const Plan& plan = set_of(event.call).plans[rank];
  const bool before = event.phase == Phase::kPrologue;
  if (event.by_user) {
    return std::string("its user ") +
           (before ? "before it enters call " : "after it returned from call ") + call;
  }
  const auto text_of = [&](const std::vector<Op>& ops) {
    return to_string(event.op) + (event.op < ops.size() ? ": " + print(ops[event.op]) : "");
  };
  if (before) return "call " + call + " prologue op " + text_of(plan.prologue);
  if (event.phase == Phase::kEpilogue)
    return "call " + call + " epilogue op " + text_of(plan.epilogue);
  return "call " + call + " slice " + to_string(event.slice) + " op " + text_of(plan.ops);
}

std::string Machine::describe(Timestamp timestamp) const {
  const Thread& thread = threads_[timestamp.thread];
  return std::string(thread.engine) + "rank " + to_string(thread.rank) + " lane " +
         to_string(thread.lane) + " (" + describe(thread.events[timestamp.time - 1], thread.rank) +
         ")";
}

std::string Machine::describe_memory(uint32_t memory) const {
  static constexpr const char* kNames[] = {"input",   "output",       "cells",
                                           "scratch", "landing zone", "encoded values"};
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
  refuse("rank " + to_string(at.rank) + " lane " + to_string(at.at->lane) + " (" +
         describe(event_of(at), at.rank) + ") " + what);
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
  const auto describe_at = [&](const Position& at) {
    return describe(event_of(context_of(rank, at)), rank);
  };
  std::string text = "rank " + to_string(rank) + ": ";
  const Plan& plan = plan_of(rank);
  const auto& leader = state.drives[static_cast<size_t>(plan.lanes[0].engine)].walk;
  if (leader.phase() != Phase::kSlices) return text + describe_at(leader.ends());
  for (uint32_t i = 0; i < plan.lanes.size(); ++i) {
    const Position& lane = position_of(rank, i);
    if (lane.slice == slices_of(plan, i)) continue;
    if (!text.ends_with(": ")) text += "; ";
    text += "lane " + to_string(i) + " " + describe_at(lane);
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
