#include "src/plan/renumber.h"

namespace tutti::plan {
namespace {

void renumber_peer(Op& op, std::span<const uint32_t> numbers) {
  const bool names_near = op.code == OpCode::kWait || op.code == OpCode::kWaitCell ||
                          op.code == OpCode::kWaitEnter || op.code == OpCode::kReadPeer ||
                          op.code == OpCode::kMove;
  if (names_near && op.peer != kNoPeer && op.peer < numbers.size()) op.peer = numbers[op.peer];
}

}  // namespace

Plan renumber(const Plan& plan, std::span<const uint32_t> numbers) {
  Plan other = plan;
  for (Op& op : other.ops) renumber_peer(op, numbers);
  for (Op& op : other.prologue) renumber_peer(op, numbers);
  for (Op& op : other.epilogue) renumber_peer(op, numbers);
  for (LevelRow& row : other.level_rows) {
    row.root = numbers[row.root];
    row.peer = numbers[row.peer];
  }
  for (Operand& operand : other.operands) {
    if (operand.base < register_of(Base::kFixed)) continue;
    const uint32_t rank = numbers[rank_of(operand.base)];
    operand.base = register_of(peer_base_of(operand.base), static_cast<int>(rank));
  }
  return other;
}

}  // namespace tutti::plan
