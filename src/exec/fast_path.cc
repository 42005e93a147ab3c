#include "src/exec/fast_path.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace tutti::exec {

using plan::Answer;
using plan::Op;
using plan::OpCode;
using plan::Operand;
using plan::PeerBase;
using plan::Plan;
using plan::Position;

namespace {

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

// The machine that writes down. It answers an operation without a short form with kFailed, and the
// walk ends.
class FastPath::Recorder {
 public:
  static constexpr uint64_t kSlicesATurn = 1;

  explicit Recorder(FastPath& path) : path_(path) {}

  Answer enter(const Position&) { return Answer::kFailed; }
  Answer entered(const Position&, uint32_t) { return Answer::kFailed; }
  Answer read(const Position&, const Op&) { return Answer::kFailed; }
  Answer own_reached(const Position&, uint32_t, uint64_t) { return Answer::kFailed; }
  Answer post(const Position&, const Op&) { return Answer::kFailed; }
  Answer arrived(const Position&, const Op&) { return Answer::kFailed; }
  Answer sent(const Position&, const Op&) { return Answer::kFailed; }

  Answer move(const Position& at, const Op& op) {
    const bool plain =
        op.target_count == 1 && op.mask == plan::kNoMask && !op.divide && !op.is_encoded;
    return plain && path_.add_move(op, at.op) ? Answer::kGoOn : Answer::kFailed;
  }
  Answer signal(const Position& at, uint64_t value) {
    path_.add_signal(value - at.progress);
    return Answer::kGoOn;
  }
  Answer reached(const Position& at, uint32_t member, uint32_t lane, uint64_t value) {
    if (at.phase != plan::Phase::kSlices || lane != 0) return Answer::kFailed;
    path_.add_await(FastPath::reach, member, static_cast<uint32_t>(value - at.progress), at.op);
    return Answer::kGoOn;
  }
  Answer raise(const Position& at, uint64_t cell, uint64_t) {
    path_.add_flag(cell - at.frame.cell);
    return Answer::kGoOn;
  }
  Answer raised(const Position& at, uint32_t member, uint64_t, uint64_t) {
    if (waits_in_time(*path_.plan_, at.op)) return Answer::kGoOn;
    path_.add_await(FastPath::wait, member, path_.plan_->ops[at.op].value, at.op);
    return Answer::kGoOn;
  }
  // Asked first, or there is no short form: run() does the same.
  Answer passed(const Position&, uint32_t, uint64_t) {
    if (!path_.instructions_.empty()) return Answer::kFailed;
    path_.awaits_credit_ = true;
    return Answer::kGoOn;
  }

  void fork() {}
  void opened(const Position&) {}
  void closed(const Position&) {}
  void stepped(const Position&) {}
  void behind(const Position&, uint32_t, uint64_t, uint32_t) {}
  void join() {}

 private:
  FastPath& path_;
};

std::optional<FastPath> FastPath::compile(const HostProgram& program, int rank) {
  const Plan& plan = *program.plan;
  if (plan.lanes.size() != 1 || plan.slices != 1) return std::nullopt;  // the form is defined by it
  FastPath path;
  path.plan_ = &plan;
  path.program_ = &program;
  path.my_cells_ = plan::register_of(PeerBase::kCell, rank);
  plan::Cursors cursors;  // a first slice: its frame and its cells need credit
  cursors.cells = plan::CellCursor(plan.lanes[0].cells);
  cursors.lanes[0].ring = plan::RingCursor(plan.lanes[0].frame_bytes);
  Recorder recorder(path);
  plan::Walk<Recorder> walk;
  walk.start(plan, cursors);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk.advance(recorder);
  path.program_ = nullptr;
  // run() ends with the last signal by itself.
  const bool is_whole = progress == plan::Progress::kDone && !path.instructions_.empty() &&
                        path.instructions_.back().handler == signal &&
                        path.instructions_.back().length == plan.lanes[0].advance &&
                        path.awaits_credit_ == plan.lanes[0].publishes;
  if (!is_whole) return std::nullopt;
  path.instructions_.pop_back();
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

void FastPath::add_await(Handler handler, uint32_t peer, uint32_t value, uint32_t index) {
  Instruction instruction{};
  instruction.handler = handler;
  instruction.length = value;
  instruction.target = {plan::register_of(PeerBase::kCell, static_cast<int>(peer)),
                        peer,
                        0,
                        uint64_t{value} * plan::kCellStride,
                        plan::Shift::kNone,
                        index,
                        plan_};
  instructions_.push_back(instruction);
}

FastPath::FastOperand FastPath::place_of(const Operand& operand, uint32_t op) const {
  // Pieces and scratch of the one slice begin where the whole does.
  const bool in_slot = operand.shift == plan::Shift::kFrame;
  const plan::Shift shift = in_slot ? operand.shift : plan::Shift::kNone;
  FastOperand place{operand.base, FastOperand::kReady, operand.offset, 0, shift, op, plan_};
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
  instruction.kernels = program_->kernels[index];
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
void FastPath::add_flag(uint64_t cell) {
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
void FastPath::add_signal(uint64_t value) {
  if (instructions_.empty() || instructions_.back().handler != signal) {
    Instruction instruction{};
    instruction.handler = signal;
    instructions_.push_back(instruction);
  }
  instructions_.back().length = value;
}

// The short form keeps its place to itself. While one of these lives the call shows where it
// stands, as a walk would.
class FastPath::ProgressPublisher final : public ProgressSource {
 public:
  ProgressPublisher(const FastRun& context, const FastOperand& place)
      : executor_(*context.executor), plan_(*place.plan), at_(context.at(place.op)) {
    executor_.state().show(this);
  }
  ProgressPublisher(const ProgressPublisher&) = delete;
  ~ProgressPublisher() override { executor_.state().show(nullptr); }

  StepPlace step() const override { return PlanStanding{&plan_, &at_}.step(); }
  void tell_progress(trace::Recorder& recorder, const Stall& stall) const override {
    executor_.progress().tell({&plan_, &at_}, recorder, stall);
  }

 private:
  HostExecutor& executor_;
  const Plan& plan_;
  Position at_;
};

Status FastPath::await_first_credit(const FastRun& context) const {
  FastOperand place;  // the first op
  place.plan = plan_;
  HostExecutor& executor = *context.executor;
  const Position at = context.at(0);
  if (plan_->lanes[0].cells > 0) executor.machine().reach_cells(at.frame.cell);
  await(context, place, [&] {
    return plan::await_credit(executor.machine(), at, executor.cursors()) == Answer::kGoOn;
  });
  return executor.state().status();
}

template <class Ready>
[[gnu::noinline]] bool FastPath::await(const FastRun& context, const FastOperand& place,
                                       Ready ready) {
  CallState& state = context.state();
  if (place.peer != FastOperand::kReady) state.expect(place.peer);
  Backoff backoff(state.options().spins);
  while (!ready()) {
    if (!backoff.pause()) continue;
    const ProgressPublisher publisher(context, place);
    state.check_rare();
    if (!state.ok()) return false;
  }
  state.end_wait();
  return true;
}

// The place's address once it may be read; null after a failure.
inline const std::byte* FastPath::in_time(const FastRun& context, const FastOperand& place) {
  if (place.peer == FastOperand::kReady) return context.base(place.base) + place.offset;
  const std::byte* cell = context.base(place.base) + context.frame.cell + place.cell;
  const Flag& flag = *reinterpret_cast<const Flag*>(cell);
  const auto raised = [&] { return flag.load(std::memory_order_acquire) == context.flag; };
  if (!raised()) [[unlikely]] {
    if (!await(context, place, raised)) return nullptr;
  }
  return cell + place.offset;
}

template <size_t kBytes>
bool FastPath::publish(const FastRun& context, const Instruction& op, const FastOperand* sources) {
  std::byte* cell = context.cells() + op.cell;
  const std::byte* from = context.base(sources->base) + sources->offset;
  std::memcpy(cell + op.payload, from, kBytes != 0 ? kBytes : op.bytes);
  reinterpret_cast<Flag*>(cell)->store(context.flag, std::memory_order_release);
  return true;
}

bool FastPath::store_to_cell(const FastRun& context, const Instruction& op,
                             const FastOperand* sources) {
  const std::byte* from = context.base(sources->base) + sources->offset;
  std::memcpy(context.cells() + op.cell + op.payload, from, op.bytes);
  return true;
}

bool FastPath::raise(const FastRun& context, const Instruction& op,
                     const FastOperand* /*sources*/) {
  auto* flag = reinterpret_cast<Flag*>(context.cells() + op.cell);
  flag->store(context.flag, std::memory_order_release);
  return true;
}

bool FastPath::wait(const FastRun& context, const Instruction& op, const FastOperand* /*sources*/) {
  return in_time(context, op.target) != nullptr;
}

bool FastPath::signal(const FastRun& context, const Instruction& op,
                      const FastOperand* /*sources*/) {
  const uint64_t value = context.progress + op.length;
  context.state().mine().counter(0).progress.store(value, std::memory_order_release);
  return true;
}

bool FastPath::reach(const FastRun& context, const Instruction& op,
                     const FastOperand* /*sources*/) {
  CallState& state = context.state();
  const Counter& counter = state.peers()[op.target.peer].arena.counter(0);
  const uint64_t wanted = context.progress + op.length;
  const auto reached = [&] { return counter.progress.load(std::memory_order_acquire) >= wanted; };
  if (!reached()) [[unlikely]] {
    if (!await(context, op.target, reached)) return false;
  }
  const uint64_t staged = counter.staged.load(std::memory_order_relaxed);
  context.executor->machine().mark(0, op.target.peer, staged);
  if (state.is_in_same_call(op.target.peer)) return true;  // else it may be ahead
  const ProgressPublisher publisher(context, op.target);
  return state.agrees_with(op.target.peer);
}

template <size_t kBytes>
bool FastPath::copy(const FastRun& context, const Instruction& op, const FastOperand* sources) {
  const std::byte* from = in_time(context, *sources);
  if (from == nullptr) return false;
  std::byte* to = context.base(op.target.base) + op.target.offset;
  std::memcpy(to, from, kBytes != 0 ? kBytes : op.bytes);
  return true;
}

bool FastPath::copy_slot(const FastRun& context, const Instruction& op,
                         const FastOperand* sources) {
  std::memcpy(context.address(op.target), context.address(*sources), op.bytes);
  return true;
}

// kSources: 0 if it is not known here.
template <uint32_t kSources>
bool FastPath::fold(const FastRun& context, const Instruction& op, const FastOperand* sources) {
  const std::byte* addresses[kSources != 0 ? kSources : types::kMaxSources];
  const uint32_t count = kSources != 0 ? kSources : op.source_count;
  for (uint32_t i = 0; i < count; ++i) {
    addresses[i] = in_time(context, sources[i]);
    if (addresses[i] == nullptr) return false;
  }
  std::byte* target = context.base(op.target.base) + op.target.offset;
  op.kernels.as_told({&target, addresses, 1, count, op.length});
  return true;
}

// Of several sources, or with stores that may bypass the cache, where slots are concerned.
bool FastPath::move(const FastRun& context, const Instruction& op, const FastOperand* sources) {
  const std::byte* addresses[types::kMaxSources];
  for (uint32_t i = 0; i < op.source_count; ++i) {
    const bool ready = sources[i].peer == FastOperand::kReady;
    addresses[i] = ready ? context.address(sources[i]) : in_time(context, sources[i]);
    if (addresses[i] == nullptr) return false;
  }
  std::byte* target = context.address(op.target);
  const types::FoldCall call{&target, addresses, 1, op.source_count, op.length};
  return context.executor->machine().move_by(op.kernels, call,
                                             {op.bytes, context.progress, 0, op.slot_of});
}

}  // namespace tutti::exec
