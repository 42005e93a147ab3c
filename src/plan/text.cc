#include "src/plan/text.h"

#include <span>

namespace tutti::plan {

using std::to_string;

namespace {

std::string moves(const Op& op) {
  return to_string(op.length) + " elements, " + to_string(op.source_count) + " sources, " +
         to_string(op.target_count) + " targets";
}

std::string name_of_register(uint32_t base) {
  constexpr const char* kOwn[] = {"input", "output", "scratch", "landing", "encoded"};
  constexpr const char* kPeers[] = {"slot", "cell", "input", "output"};
  if (base < register_of(Base::kFixed)) return kOwn[base];
  const auto kind = static_cast<uint32_t>(peer_base_of(base));
  return std::string(kPeers[kind]) + " of rank " + to_string(rank_of(base));
}

std::string print(std::span<const Operand> operands) {
  std::string text;
  for (const Operand& operand : operands) {
    text += (text.empty() ? "" : ", ") + name_of_register(operand.base);
    if (operand.offset > 0) text += " + " + to_string(operand.offset);
    if (operand.encoding > 0) text += " by codec " + to_string(operand.encoding);
  }
  return text.empty() ? "nothing" : text;
}

std::string print_ops(const std::string& title, const Plan& plan, std::span<const Op> ops) {
  if (ops.empty()) return "";
  std::string text = "  " + title + "\n";
  for (size_t i = 0; i < ops.size(); ++i) {
    text += "    " + to_string(i) + ": " + print(plan, ops[i]) + "\n";
  }
  return text;
}

}  // namespace

std::string print(const Op& op) {
  const std::string peer = to_string(op.peer), value = to_string(op.value);
  switch (op.code) {
    case OpCode::kCredit:
      return "credit";
    case OpCode::kMove:
      return "move " + moves(op);
    case OpCode::kReadPeer:
      return "read from rank " + peer + ", " + moves(op);
    case OpCode::kSignal:
      return "signal " + value;
    case OpCode::kWait:
      return "wait for " + value + " of rank " + peer;
    case OpCode::kRaise:
      return "raise cell " + value;
    case OpCode::kWaitCell:
      return "wait for cell " + value + " of rank " + peer;
    case OpCode::kEnter:
      return "enter";
    case OpCode::kWaitEnter:
      return "wait for rank " + peer + " to enter";
    case OpCode::kAfter:
      return "wait for op " + value + " of lane " + peer;
    case OpCode::kStreamReceive:
      return "post receive " + value + " from rank " + peer;
    case OpCode::kStreamSend:
      return "post send " + value + " to rank " + peer;
    case OpCode::kStreamArrived:
      return "wait for receive " + value;
    case OpCode::kStreamSent:
      return "wait for send " + value + " of lane " + to_string(op.lane);
    case OpCode::kLevel:
      return "level call " + value;
  }
  return "an unknown micro-operation";
}

std::string print(const Plan& plan, const Op& op) {
  const auto all = std::span(plan.operands).subspan(op.operands, op.target_count + op.source_count);
  const auto targets = all.first(op.target_count), sources = all.subspan(op.target_count);
  switch (op.code) {
    case OpCode::kMove:
      return "move " + to_string(op.length) + " elements: " + print(targets) + " <- " +
             print(sources);
    case OpCode::kReadPeer:
      return "read " + to_string(op.length) + " elements from rank " + to_string(op.peer) + ": " +
             print(targets) + " <- " + print(sources);
    case OpCode::kStreamReceive:
      return print(op) + ": " + print(targets);
    case OpCode::kStreamSend:
      return print(op) + ": " + print(sources);
    default:
      return print(op);
  }
}

std::string print(const Plan& plan, int rank) {
  std::string text = "rank " + to_string(rank) + ": " + to_string(plan.slices) +
                     (plan.slices == 1 ? " slice" : " slices") +
                     (plan.passes.empty() ? "" : ", " + plan.passes) + "\n";
  text += print_ops("once, before the first slice", plan, plan.prologue);
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    const LanePlan& part = plan.lanes[lane];
    const auto ops = std::span(plan.ops).subspan(part.begin, part.end - part.begin);
    text += print_ops("every slice, lane " + to_string(lane), plan, ops);
  }
  return text + print_ops("once, after the last slice", plan, plan.epilogue);
}

}  // namespace tutti::plan
