#include "src/exec/fast_path.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace tutti::exec {

using plan::Op;
using plan::OpCode;
using plan::Operand;
using plan::PeerBase;
using plan::Plan;

namespace {

bool qualifies(const Plan& plan) {
  if (plan.lanes.size() != 1 || plan.slices != 1) return false;
  if (!plan.prologue.empty() || !plan.epilogue.empty()) return false;
  // run() waits for credit before everything, and ends with the last signal.
  const plan::LanePlan& lane = plan.lanes[0];
  const auto is_credit = [](const Op& op) { return op.code == OpCode::kCredit; };
  const auto credits = std::count_if(plan.ops.begin(), plan.ops.end(), is_credit);
  if (credits != (lane.publishes ? 1 : 0) || plan.ops.empty()) return false;
  if (lane.publishes && !is_credit(plan.ops.front())) return false;
  const Op& last = plan.ops.back();
  if (last.code != OpCode::kSignal || last.value != lane.advance) return false;
  return std::all_of(plan.ops.begin(), plan.ops.end(), [](const Op& op) {
    switch (op.code) {
      case OpCode::kMove:
        return op.target_count == 1 && op.mask == plan::kNoMask && !op.divide;
      case OpCode::kCredit:
      case OpCode::kRaise:
      case OpCode::kWaitCell:
      case OpCode::kSignal:
      case OpCode::kWait:
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
  path.my_cells_ = plan::register_of(PeerBase::kCell, rank);
  for (uint32_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.code != OpCode::kMove) {
      path.add(op, i);
    } else if (!path.add_move(op, i)) {
      return std::nullopt;
    }
  }
  path.instructions_.pop_back();  // the last signal
  path.choose_claim();
  return path;
}

// The next call of this plan has its cells behind this one's. Of a message longer than the flag's
// line only the payload is claimed: a reader that waits has the flag's line back before the payload
// is written. Tiny messages flow one way: their sender is ahead, and readers may still be at those
// that lie in the same line.
void FastPath::choose_claim() {
  const plan::LanePlan& lane = plan_->lanes[0];
  const auto publishes = [](const Instruction& op) {
    return op.handler == publish<4> || op.handler == publish<8> || op.handler == publish<0> ||
           op.handler == store_to_cell || op.handler == raise;
  };
  const auto first = std::ranges::find_if(instructions_, publishes);
  if (lane.tiny || first == instructions_.end()) return;
  const bool is_short = first->bytes <= plan::kCellShortBytes;
  const uint64_t begin = first->cell + (is_short ? 0 : first->payload);
  const uint64_t bytes = is_short ? 1 : first->bytes;
  claim_ = {lane.cells * plan::kCellStride + begin,
            static_cast<uint32_t>((bytes + kPrefetchedBytes - 1) / kPrefetchedBytes)};
}

void FastPath::add(const Op& op, uint32_t index) {
  Instruction instruction{};
  switch (op.code) {
    case OpCode::kCredit:
      return;
    case OpCode::kRaise:
      return add_flag(op);
    case OpCode::kSignal:
      return add_signal(op.value);
    case OpCode::kWaitCell:
      if (waits_in_time(*plan_, index)) return;
      instruction.handler = wait;
      break;
    default:
      instruction.handler = reach;
      instruction.length = op.value;
      break;
  }
  instruction.target = await_of(op, index);
  instructions_.push_back(instruction);
}

FastPath::Place FastPath::await_of(const Op& op, uint32_t index) const {
  const uint32_t cells = plan::register_of(PeerBase::kCell, static_cast<int>(op.peer));
  return {cells, op.peer, 0, uint64_t{op.value} * plan::kCellStride, plan::Shift::kNone,
          index, plan_};
}

FastPath::Place FastPath::place_of(const Operand& operand, uint32_t op) const {
  // Pieces and scratch of the one slice begin where the whole does.
  const bool in_slot = operand.shift == plan::Shift::kFrame;
  const plan::Shift shift = in_slot ? operand.shift : plan::Shift::kNone;
  Place place{operand.base, Place::kReady, operand.offset, 0, shift, op, plan_};
  if (operand.shift != plan::Shift::kCell) return place;
  place.cell = operand.offset / plan::kCellStride * plan::kCellStride;
  place.offset -= place.cell;
  place.peer = plan::rank_of(operand.base);
  return place;
}

bool FastPath::add_move(const Op& op, uint32_t index) {
  const Operand& target = plan_->operands[op.operands];
  const std::span sources(&target + 1, op.source_count);
  const auto lie_in = [&](plan::Shift shift) {
    return std::ranges::any_of(sources, [shift](const Operand& s) { return s.shift == shift; });
  };
  const auto is_mine = [this](const Operand& operand) { return operand.base == my_cells_; };
  if (std::ranges::any_of(sources, is_mine)) return false;
  Instruction instruction{};
  instruction.kernel = op.kernel;
  instruction.streaming_kernel = op.streaming_kernel;
  instruction.length = op.length;
  instruction.bytes = op.length * plan_->element_bytes;
  instruction.source_count = op.source_count;
  instruction.slot_of = op.peer;
  instruction.first_source = static_cast<uint32_t>(sources_.size());
  instruction.target = place_of(target, index);
  const bool in_slots = target.shift == plan::Shift::kFrame || lie_in(plan::Shift::kFrame);
  if (is_mine(target)) {
    if (op.source_count != 1 || in_slots || lie_in(plan::Shift::kCell)) return false;
    instruction.handler = store_to_cell;
    instruction.cell = instruction.target.cell;
    instruction.payload = instruction.target.offset;
  } else if (in_slots) {
    const bool may_be_timed = instruction.bytes >= kLeastStagingBytes;
    const bool plain = op.source_count == 1 && !may_be_timed && !lie_in(plan::Shift::kCell);
    instruction.handler = plain ? copy_slot : move;
  } else if (op.source_count == 1) {
    instruction.handler = instruction.bytes == 4   ? copy<4>
                          : instruction.bytes == 8 ? copy<8>
                                                   : copy<0>;
  } else {
    instruction.handler = op.source_count == 2 ? fold<2> : op.source_count == 4 ? fold<4> : fold<0>;
  }
  for (const Operand& source : sources) sources_.push_back(place_of(source, index));
  instructions_.push_back(instruction);
  return true;
}

// A flag behind the single store to its cell becomes one instruction with it.
void FastPath::add_flag(const Op& op) {
  const uint64_t cell = uint64_t{op.value} * plan::kCellStride;
  if (!instructions_.empty()) {
    Instruction& last = instructions_.back();
    const bool first_in_cell = last.payload == plan::cell_payload_offset(last.bytes);
    if (last.handler == store_to_cell && last.cell == cell && first_in_cell) {
      last.handler = last.bytes == 4 ? publish<4> : last.bytes == 8 ? publish<8> : publish<0>;
      return;
    }
  }
  Instruction instruction{};
  instruction.handler = raise;
  instruction.cell = cell;
  instructions_.push_back(instruction);
}

// Of signals that follow each other the last one says it all.
void FastPath::add_signal(uint32_t value) {
  if (instructions_.empty() || instructions_.back().handler != signal) {
    Instruction instruction{};
    instruction.handler = signal;
    instructions_.push_back(instruction);
  }
  instructions_.back().length = value;
}

// The short form keeps its place to itself. While one of these lives, when somebody may want to
// know, the executor looks as if it interpreted the plan and stood there.
class FastPath::Shown {
 public:
  Shown(const Context& context, const plan::Plan& plan, uint32_t op)
      : executor_(*context.executor), lane_(executor_.lanes_[0]) {
    executor_.plan_ = &plan;
    executor_.cell_shift_ = context.cell_shift;
    lane_.slice = 0;
    lane_.op = op;
    lane_.open = true;
  }
  Shown(const Shown&) = delete;
  ~Shown() {
    executor_.plan_ = nullptr;
    lane_.open = false;
  }

 private:
  HostExecutor& executor_;
  HostExecutor::Lane& lane_;
};

Status FastPath::await_credit(HostExecutor& executor, uint64_t cell_shift) const {
  const Context context{&executor, cell_shift, 0};
  Place place;  // the first op
  place.plan = plan_;
  await(context, place, [&] { return executor.credit(executor.lanes_[0], 0); });
  return executor.status_;
}

template <class Ready>
[[gnu::noinline]] bool FastPath::await(const Context& context, const Place& place, Ready ready) {
  HostExecutor& executor = *context.executor;
  if (place.peer != Place::kReady) executor.waiting_for_ = place.peer;
  Backoff backoff(executor.options_.spins);
  while (!ready()) {
    if (!backoff.pause()) continue;
    const Shown shown(context, *place.plan, place.op);
    executor.check_rare();
    if (!executor.status_.ok()) return false;
  }
  executor.end_wait();
  return true;
}

// The place's address once it may be read; null after a failure.
inline const std::byte* FastPath::in_time(const Context& context, const Place& place) {
  if (place.peer == Place::kReady) return context.base(place.base) + place.offset;
  const std::byte* cell = context.base(place.base) + context.cell_shift + place.cell;
  const Flag& flag = *reinterpret_cast<const Flag*>(cell);
  const auto raised = [&] { return flag.load(std::memory_order_acquire) == context.flag; };
  if (!raised()) [[unlikely]] {
    if (!await(context, place, raised)) return nullptr;
  }
  return cell + place.offset;
}

template <size_t kBytes>
bool FastPath::publish(const Context& context, const Instruction& op, const Place* sources) {
  std::byte* cell = context.cells() + op.cell;
  const std::byte* from = context.base(sources->base) + sources->offset;
  std::memcpy(cell + op.payload, from, kBytes != 0 ? kBytes : op.bytes);
  reinterpret_cast<Flag*>(cell)->store(context.flag, std::memory_order_release);
  return true;
}

bool FastPath::store_to_cell(const Context& context, const Instruction& op, const Place* sources) {
  const std::byte* from = context.base(sources->base) + sources->offset;
  std::memcpy(context.cells() + op.cell + op.payload, from, op.bytes);
  return true;
}

bool FastPath::raise(const Context& context, const Instruction& op, const Place* /*sources*/) {
  auto* flag = reinterpret_cast<Flag*>(context.cells() + op.cell);
  flag->store(context.flag, std::memory_order_release);
  return true;
}

bool FastPath::wait(const Context& context, const Instruction& op, const Place* /*sources*/) {
  return in_time(context, op.target) != nullptr;
}

bool FastPath::signal(const Context& context, const Instruction& op, const Place* /*sources*/) {
  HostExecutor& executor = *context.executor;
  executor.mine_.counter(0).progress.store(executor.lanes_[0].progress + op.length,
                                           std::memory_order_release);
  return true;
}

bool FastPath::reach(const Context& context, const Instruction& op, const Place* /*sources*/) {
  HostExecutor& executor = *context.executor;
  const Counter& counter = executor.peers_[op.target.peer].arena.counter(0);
  const uint64_t wanted = executor.lanes_[0].progress + op.length;
  const auto reached = [&] { return counter.progress.load(std::memory_order_acquire) >= wanted; };
  if (!reached()) [[unlikely]] {
    if (!await(context, op.target, reached)) return false;
  }
  executor.lanes_[0].mark = StagingMark(counter.staged.load(std::memory_order_relaxed));
  executor.lanes_[0].marked_by = op.target.peer;
  if (executor.is_in_same_call(op.target.peer)) return true;  // else it may be ahead
  const Shown shown(context, *op.target.plan, op.target.op);
  executor.check_signature(op.target.peer);
  return executor.status_.ok();
}

template <size_t kBytes>
bool FastPath::copy(const Context& context, const Instruction& op, const Place* sources) {
  const std::byte* from = in_time(context, *sources);
  if (from == nullptr) return false;
  std::byte* to = context.base(op.target.base) + op.target.offset;
  std::memcpy(to, from, kBytes != 0 ? kBytes : op.bytes);
  return true;
}

bool FastPath::copy_slot(const Context& context, const Instruction& op, const Place* sources) {
  std::memcpy(context.address(op.target), context.address(*sources), op.bytes);
  return true;
}

// kSources: 0 if it is not known here.
template <uint32_t kSources>
bool FastPath::fold(const Context& context, const Instruction& op, const Place* sources) {
  const std::byte* addresses[kSources != 0 ? kSources : types::kMaxSources];
  const uint32_t count = kSources != 0 ? kSources : op.source_count;
  for (uint32_t i = 0; i < count; ++i) {
    addresses[i] = in_time(context, sources[i]);
    if (addresses[i] == nullptr) return false;
  }
  std::byte* target = context.base(op.target.base) + op.target.offset;
  op.kernel({&target, addresses, 1, count, op.length});
  return true;
}

// Of several sources, or with stores that may bypass the cache, where slots are concerned.
bool FastPath::move(const Context& context, const Instruction& op, const Place* sources) {
  const std::byte* addresses[types::kMaxSources];
  for (uint32_t i = 0; i < op.source_count; ++i) {
    const bool ready = sources[i].peer == Place::kReady;
    addresses[i] = ready ? context.address(sources[i]) : in_time(context, sources[i]);
    if (addresses[i] == nullptr) return false;
  }
  std::byte* target = context.address(op.target);
  const types::FoldCall call{&target, addresses, 1, op.source_count, op.length};
  HostExecutor& executor = *context.executor;
  const HostExecutor::Lane& lane = executor.lanes_[0];
  if (op.streaming_kernel == nullptr) {
    executor.read_staging(lane, op.slot_of, op.bytes, [&] { op.kernel(call); });
  } else {
    const StagingWriter::Order order{executor.mine_.counter(0).staged, lane.progress};
    executor.write_staging_(op.bytes, op.source_count == 1, order, [&](bool streaming) {
      (streaming ? op.streaming_kernel : op.kernel)(call);
    });
  }
  return true;
}

}  // namespace tutti::exec
