#include "src/exec/fast_path.h"

#include <algorithm>
#include <cstring>

namespace tutti::exec {

using plan::Op;
using plan::OpCode;
using plan::Operand;
using plan::PeerBase;
using plan::Plan;

namespace {

bool qualifies(const Plan& plan) {
  if (plan.lanes.size() != 1 || plan.slices != 1 || plan.lanes[0].cells == 0) return false;
  if (!plan.prologue.empty() || !plan.epilogue.empty()) return false;
  return std::all_of(plan.ops.begin(), plan.ops.end(), [](const Op& op) {
    switch (op.code) {
      case OpCode::kMove:
        return op.target_count == 1 && op.mask == plan::kNoMask && !op.divide;
      case OpCode::kCredit:
      case OpCode::kRaise:
      case OpCode::kWaitCell:
      case OpCode::kSignal:
        return true;
      default:
        return false;
    }
  });
}

// The move behind the waits reads the very cell: it looks at the flag itself, in time.
bool waits_in_time(const Plan& plan, size_t index) {
  const Op& wait = plan.ops[index];
  while (index < plan.ops.size() && plan.ops[index].code == OpCode::kWaitCell) ++index;
  if (index == plan.ops.size() || plan.ops[index].code != OpCode::kMove) return false;
  const Op& move = plan.ops[index];
  const Operand* sources = plan.operands.data() + move.operands + move.target_count;
  return std::any_of(sources, sources + move.source_count, [&](const Operand& source) {
    return source.base == plan::register_of(PeerBase::kCell, static_cast<int>(wait.peer)) &&
           source.offset / plan::kCellStride == wait.value;
  });
}

}  // namespace

std::optional<FastPath> FastPath::compile(const Plan& plan, int rank) {
  if (!qualifies(plan)) return std::nullopt;
  FastPath path;
  path.plan_ = &plan;
  const uint32_t my_cells = plan::register_of(PeerBase::kCell, rank);
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.code == OpCode::kMove) {
      if (!path.add_move(plan, op, my_cells)) return std::nullopt;
    } else if (op.code == OpCode::kRaise) {
      path.add_flag(op);
    } else if (op.code == OpCode::kWaitCell && !waits_in_time(plan, i)) {
      Instruction wait{};
      wait.handler = FastPath::wait;
      wait.target = {plan::register_of(PeerBase::kCell, static_cast<int>(op.peer)), op.peer, 0,
                     uint64_t{op.value} * plan::kCellStride, path.plan_};
      path.instructions_.push_back(wait);
    }
  }
  return path;
}

FastPath::Source FastPath::source_of(const Operand& operand, uint32_t my_cells) const {
  const bool in_cell = operand.shift == plan::Shift::kCell;
  if (!in_cell || operand.base == my_cells)
    return {operand.base, Source::kLocal, operand.offset, 0, plan_};
  const uint64_t cell = operand.offset / plan::kCellStride * plan::kCellStride;
  const uint32_t peer = (operand.base - plan::register_of(PeerBase::kSlot, 0)) /
                        static_cast<uint32_t>(PeerBase::kCount);
  return {operand.base, peer, operand.offset - cell, cell, plan_};
}

bool FastPath::add_move(const Plan& plan, const Op& op, uint32_t my_cells) {
  const Operand* operands = plan.operands.data() + op.operands;
  Instruction instruction{};
  instruction.kernel = op.kernel;
  instruction.length = op.length;
  instruction.first_source = static_cast<uint32_t>(sources_.size());
  instruction.source_count = op.source_count;
  for (uint32_t i = 0; i < op.source_count; ++i) {
    sources_.push_back(source_of(operands[1 + i], my_cells));
  }
  const uint64_t bytes = op.length * plan.element_bytes;
  if (operands[0].base == my_cells) {
    if (op.source_count != 1) return false;
    instruction.handler = store_to_cell;
    instruction.length = bytes;
    instruction.cell = operands[0].offset / plan::kCellStride * plan::kCellStride;
    instruction.payload = operands[0].offset - instruction.cell;
  } else {
    instruction.target = source_of(operands[0], my_cells);
    if (op.source_count == 1) {
      instruction.length = bytes;
      instruction.handler = bytes == 4 ? copy<4> : bytes == 8 ? copy<8> : copy<0>;
    } else {
      instruction.handler = op.source_count == 2   ? fold<2>
                            : op.source_count == 4 ? fold<4>
                                                   : fold_any;
    }
  }
  instructions_.push_back(instruction);
  return true;
}

// A flag behind the single store to its cell becomes one instruction with it.
void FastPath::add_flag(const Op& op) {
  const uint64_t cell = uint64_t{op.value} * plan::kCellStride;
  if (!instructions_.empty()) {
    Instruction& last = instructions_.back();
    const bool first_in_cell = last.payload == plan::cell_payload_offset(last.length);
    if (last.handler == store_to_cell && last.cell == cell && first_in_cell) {
      last.handler = last.length == 4 ? publish<4> : last.length == 8 ? publish<8> : publish<0>;
      return;
    }
  }
  Instruction instruction{};
  instruction.handler = raise;
  instruction.cell = cell;
  instructions_.push_back(instruction);
}

Status FastPath::await_credit(HostExecutor& executor, uint64_t cell_shift) const {
  Backoff backoff(executor.options_.spins);
  while (!executor.credit(executor.lanes_[0], 0)) {
    if (backoff.pause()) executor.check_rare(*plan_, cell_shift);
    if (!executor.status_.ok()) return executor.status_;
  }
  executor.end_wait();
  return {};
}

bool FastPath::await(const Context& context, const Flag& flag, const Source& source) {
  HostExecutor& executor = *context.executor;
  executor.waiting_for_ = source.peer;
  Backoff backoff(executor.options_.spins);
  while (flag.load(std::memory_order_acquire) != context.flag) {
    if (!backoff.pause()) continue;
    executor.check_rare(*source.plan, context.cell_shift);
    if (!executor.status_.ok()) return false;
  }
  executor.end_wait();
  return true;
}

// The source's address once it may be read; null after a failure.
inline const std::byte* FastPath::in_time(const Context& context, const Source& source) {
  const std::byte* base = context.base(source.base);
  if (source.peer == Source::kLocal) return base + source.offset;
  const std::byte* cell = base + context.cell_shift + source.cell;
  const Flag& flag = *reinterpret_cast<const Flag*>(cell);
  if (flag.load(std::memory_order_acquire) != context.flag) [[unlikely]] {
    if (!await(context, flag, source)) return nullptr;
  }
  return cell + source.offset;
}

template <size_t kBytes>
bool FastPath::publish(const Context& context, const Instruction& op, const Source* sources) {
  std::byte* cell = context.cells() + op.cell;
  const std::byte* from = context.base(sources->base) + sources->offset;
  std::memcpy(cell + op.payload, from, kBytes != 0 ? kBytes : op.length);
  reinterpret_cast<Flag*>(cell)->store(context.flag, std::memory_order_release);
  return true;
}

bool FastPath::store_to_cell(const Context& context, const Instruction& op, const Source* sources) {
  const std::byte* from = in_time(context, *sources);
  if (from == nullptr) return false;
  std::memcpy(context.cells() + op.cell + op.payload, from, op.length);
  return true;
}

bool FastPath::raise(const Context& context, const Instruction& op, const Source* /*sources*/) {
  auto* flag = reinterpret_cast<Flag*>(context.cells() + op.cell);
  flag->store(context.flag, std::memory_order_release);
  return true;
}

bool FastPath::wait(const Context& context, const Instruction& op, const Source* /*sources*/) {
  return in_time(context, op.target) != nullptr;
}

template <size_t kBytes>
bool FastPath::copy(const Context& context, const Instruction& op, const Source* sources) {
  const std::byte* from = in_time(context, *sources);
  if (from == nullptr) return false;
  std::byte* to = context.base(op.target.base) + op.target.offset;
  std::memcpy(to, from, kBytes != 0 ? kBytes : op.length);
  return true;
}

template <uint32_t kSources>
bool FastPath::fold(const Context& context, const Instruction& op, const Source* sources) {
  const std::byte* addresses[kSources];
  for (uint32_t i = 0; i < kSources; ++i) {
    addresses[i] = in_time(context, sources[i]);
    if (addresses[i] == nullptr) return false;
  }
  std::byte* target = context.base(op.target.base) + op.target.offset;
  op.kernel({&target, addresses, 1, kSources, op.length});
  return true;
}

bool FastPath::fold_any(const Context& context, const Instruction& op, const Source* sources) {
  const std::byte* addresses[types::kMaxSources];
  for (uint32_t i = 0; i < op.source_count; ++i) {
    addresses[i] = in_time(context, sources[i]);
    if (addresses[i] == nullptr) return false;
  }
  std::byte* target = context.base(op.target.base) + op.target.offset;
  op.kernel({&target, addresses, 1, op.source_count, op.length});
  return true;
}

}  // namespace tutti::exec
