#include "src/exec/plan_progress.h"

#include <algorithm>

#include "src/diagnosis/stall.h"
#include "src/schedule/layout.h"

namespace tutti::exec {

using plan::Exchange;
using plan::OpCode;
using plan::Position;

namespace {

// The receives of a slice are posted together, behind its credit.
bool has_posted(const plan::Plan& plan, const Position& lane) {
  if (!lane.open || lane.op >= plan.ops.size()) return lane.open;
  const OpCode code = plan.ops[lane.op].code;
  return code != OpCode::kCredit && code != OpCode::kStreamReceive;
}

}  // namespace

ProgressSource::StepPlace PlanStanding::step() const {
  ProgressSource::StepPlace found;
  while (found.lane + 1 < plan->lanes.size() &&
         lanes[found.lane].slice == plan::slices_of(*plan, found.lane)) {
    ++found.lane;
  }
  const uint32_t op = lanes[found.lane].op;
  if (op < plan->lanes[found.lane].end) found.step = plan->ops[op].index;
  return found;
}

PlanProgress::PlanProgress(const CallState& state, const HostMachine& machine)
    : state_(state), machine_(machine) {
  if (state.options().recorder != nullptr) tally_.resize(2 * state.peers().size());
}

// Of the slice that its lane is in. A message of mine counts when its receiver needs nothing
// further of this rank, one to me when I need nothing further of its sender.
bool PlanProgress::is_complete(const PlanStanding& at, const Exchange& exchange) const {
  const Position& lane = at.lanes[exchange.lane];
  const ArenaView& peer = state_.peers()[exchange.peer].arena;
  const plan::LanePlan& lane_plan = at.plan->lanes[exchange.lane];
  if (!lane.open) return false;
  if (exchange.near != nullptr && lane_plan.cells > 0) {
    const ArenaView& sender = exchange.sends ? state_.mine() : peer;
    const std::byte* cell =
        sender.cells() + lane.frame.cell + uint64_t{exchange.near->cell} * plan::kCellStride;
    return reinterpret_cast<const Flag*>(cell)->load(std::memory_order_acquire) ==
           state_.cell_flag(lane.progress + 1);
  }
  const bool passed = lane.op >= lane_plan.end || at.plan->ops[lane.op].index > exchange.step;
  if (exchange.near != nullptr) {
    if (passed || exchange.sends) return passed;
    const uint64_t told = peer.counter(exchange.lane).progress.load(std::memory_order_acquire);
    return told >= lane.progress + exchange.near->value;
  }
  if (exchange.sends)
    return passed && machine_.has_sent(exchange.lane, exchange.peer, exchange.ordinal);
  return has_posted(*at.plan, lane) &&
         machine_.has_received(exchange.lane, exchange.peer, exchange.ordinal);
}

void PlanProgress::add(const PlanStanding& at, const Exchange& exchange) {
  const plan::Plan& plan = *at.plan;
  const uint64_t slice = at.lanes[exchange.lane].slice;
  const uint64_t slices = plan::slices_of(plan, exchange.lane);
  const bool more = slice < slices && is_complete(at, exchange);
  const uint64_t complete = slice + (more ? 1 : 0);
  Tally& tally = tally_[2 * size_t{exchange.peer} + (exchange.sends ? 1 : 0)];
  tally.messages += static_cast<uint32_t>(slices);
  tally.complete += static_cast<uint32_t>(complete);
  for (const schedule::Block block : exchange.blocks) {
    const uint64_t length = plan.layout.length(plan.match->schedule, block);
    tally.bytes += length * plan.element_bytes;
    tally.moved +=
        plan::piece_of(plan, exchange.lane, complete, length).offset * plan.element_bytes;
  }
}

void PlanProgress::tell(const PlanStanding& at, trace::Recorder& recorder, const Stall& stall) {
  if (at.plan->match == nullptr) return;
  std::fill(tally_.begin(), tally_.end(), Tally{});
  plan::each_exchange(*at.plan->match, [&](const Exchange& exchange) { add(at, exchange); });
  tell_lines(recorder, stall);
}

// The messages that this rank waits for come first, as there may not be room for all.
void PlanProgress::tell_lines(trace::Recorder& recorder, const Stall& stall) const {
  const auto lines = std::count_if(tally_.begin(), tally_.end(),
                                   [](const Tally& tally) { return tally.messages > 0; });
  const uint32_t room = recorder.open_lines(static_cast<uint64_t>(lines));
  uint32_t line = 0;
  for (const bool complete : {false, true}) {
    for (uint32_t i = 0; i < tally_.size() && line < room; ++i) {
      const Tally& tally = tally_[i];
      if (tally.messages == 0 || (tally.complete == tally.messages) != complete) continue;
      trace::ExchangeState exchange{.peer = i / 2, .sends = i % 2 == 1};
      exchange.bytes = tally.bytes;
      exchange.moved = tally.moved;
      exchange.messages = tally.messages;
      exchange.complete = tally.complete;
      stall.describe_peer(exchange);
      recorder.set_line(line++, exchange);
    }
  }
}

}  // namespace tutti::exec
