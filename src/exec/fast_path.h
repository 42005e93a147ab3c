// Superinstructions: the short form of plans of one lane and one slice.
//
// Where all messages travel in cells and slots, such a plan is a few [publish] and [wait for the
// sources, fold, store]. A machine that writes down what a walk asks of it turns them into a list
// of function pointers specialised on size, with everything resolved but the positions in the
// rings. Running the list has the effect of the walk; this form only saves instructions
// (docs/measurements).
//
// Threads and errors: those of HostExecutor::run(), whose cursors and machine it shares.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/exec/host_executor.h"

namespace tutti::exec {

class FastPath {
 public:
  /// Nothing if the plan has no short form. Keeps a pointer to the plan.
  static std::optional<FastPath> compile(const HostProgram& program, int rank);

  Status run(HostExecutor& executor, const Call& call) const;

  /// The lines that the next call of the same plan will store first, relative to the frame of this
  /// call. The guess is wrong behind the last frame of the ring, one call in some 250.
  struct NextStores {
    uint64_t offset = 0;
    uint32_t lines = 0;
  };
  const NextStores& claim() const { return claim_; }

 private:
  // A source, a target, or what is waited for.
  struct FastOperand {
    static constexpr uint32_t kReady = ~0u;
    uint32_t base = 0;                       // register
    uint32_t peer = kReady;                  // whose cell or counter is waited for; kReady: no wait
    uint64_t offset = 0;                     // from the register; in a cell: from the cell
    uint64_t cell = 0;                       // in a cell: the cell's, from the frame
    plan::Shift shift = plan::Shift::kNone;  // kFrame: in a slot
    uint32_t op = 0;  // of the plan: for who asks during a long wait how far the call has come
    const plan::Plan* plan = nullptr;
  };
  /// One run.
  struct FastRun {
    HostExecutor* executor;
    plan::Frame frame;  // of the one slice
    uint64_t progress;  // when it begins
    uint64_t flag;

    plan::Position at(uint32_t op) const {
      return {.open = true, .op = op, .progress = progress, .frame = frame};
    }
    CallState& state() const { return executor->state(); }
    std::byte* base(uint32_t number) const { return executor->machine().base(number); }
    std::byte* cells() const { return state().mine().cells() + frame.cell; }  // mine
    std::byte* address(const FastOperand& place) const {
      const uint64_t shift = place.shift == plan::Shift::kFrame ? frame.frame : 0;
      return base(place.base) + place.offset + shift;
    }
  };
  class Recorder;
  class ProgressPublisher;
  struct Instruction;
  using Handler = bool (*)(const FastRun&, const Instruction&, const FastOperand*);
  struct Instruction {
    Handler handler;
    HostProgram::Kernels kernels;
    uint64_t length;  // elements; signal, reach: the signal
    uint64_t bytes;
    uint64_t cell;       // publish: the cell's offset from the frame
    uint64_t payload;    // publish: the payload's offset from the cell
    FastOperand target;  // wait, reach: for what
    uint32_t first_source;
    uint32_t source_count;
    uint32_t slot_of;  // plan::Op::peer of a move
  };

  void choose_claim();
  void add_await(Handler handler, uint32_t peer, uint32_t value, uint32_t index);
  bool add_move(const plan::Op& op, uint32_t index);
  FastOperand place_of(const plan::Operand& operand, uint32_t op) const;
  void add_flag(uint64_t cell);
  void add_signal(uint64_t value);

  Status await_first_credit(const FastRun& context) const;
  template <class Ready>
  static bool await(const FastRun& context, const FastOperand& place, Ready ready);
  static const std::byte* in_time(const FastRun& context, const FastOperand& place);
  template <size_t kBytes>
  static bool publish(const FastRun& context, const Instruction& op, const FastOperand* sources);
  static bool store_to_cell(const FastRun& context, const Instruction& op,
                            const FastOperand* sources);
  static bool raise(const FastRun& context, const Instruction& op, const FastOperand* sources);
  static bool wait(const FastRun& context, const Instruction& op, const FastOperand* sources);
  static bool signal(const FastRun& context, const Instruction& op, const FastOperand* sources);
  static bool reach(const FastRun& context, const Instruction& op, const FastOperand* sources);
  template <size_t kBytes>
  static bool copy(const FastRun& context, const Instruction& op, const FastOperand* sources);
  static bool copy_slot(const FastRun& context, const Instruction& op, const FastOperand* sources);
  template <uint32_t kSources>
  static bool fold(const FastRun& context, const Instruction& op, const FastOperand* sources);
  static bool move(const FastRun& context, const Instruction& op, const FastOperand* sources);

  std::vector<Instruction> instructions_;
  std::vector<FastOperand> sources_;
  const plan::Plan* plan_ = nullptr;
  const HostProgram* program_ = nullptr;  // while it is compiled
  uint32_t my_cells_ = 0;                 // register
  bool awaits_credit_ = false;            // before everything
  NextStores claim_;
};

// Inline because what a small call stores on its way counts: the processor keeps some 64 stores for
// later, and those behind a cell's flag wait for the line to come from a core that may be far
// (docs/measurements/small_call.md). A frame less is ten stores less.
inline Status FastPath::run(HostExecutor& executor, const Call& call) const {
  CallState& state = executor.state();
  if (!state.ok()) [[unlikely]]
    return state.status();
  state.begin(call, nullptr);
  if (plan_->scratch_bytes > 0) [[unlikely]]
    executor.machine().reserve(*plan_);
  executor.machine().set_buffers(call);
  const plan::LanePlan& plan = plan_->lanes[0];
  plan::Cursors& cursors = executor.cursors();
  plan::LaneCursor& lane = cursors.lanes[0];
  const FastRun context{&executor, plan::take_frame(plan, lane, cursors.cells, lane.progress),
                        lane.progress, state.cell_flag(lane.progress + 1)};
  if (plan.frame_bytes > 0) [[unlikely]]
    executor.machine().reach_frame(0, context.frame.frame, plan.frame_bytes);
  if (awaits_credit_ && !(cursors.cells.credited() && lane.ring.credited())) [[unlikely]] {
    if (Status status = await_first_credit(context); !status.ok()) return status;
  }
  for (const Instruction& op : instructions_) {
    if (!op.handler(context, op, sources_.data() + op.first_source)) [[unlikely]]
      return state.status();
  }
  executor.claim_next(context.cells() + claim_.offset, claim_.lines);
  lane.progress += plan.advance;
  state.mine().counter(0).progress.store(lane.progress, std::memory_order_release);
  return {};
}

}  // namespace tutti::exec
