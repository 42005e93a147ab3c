// Superinstructions: the short form of plans of one lane and one slice.
//
// Where all messages travel in cells and slots, such a plan is a few [publish] and [wait for the
// sources, fold, store]. They are compiled to function pointers specialised on size, with
// everything resolved but the positions in the rings. The interpreter runs the same plan with the
// same effect on the executor's state; this form only saves instructions (docs/measurements).
//
// Threads and errors: those of HostExecutor::run().
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/exec/host_executor.h"

namespace tutti::exec {

class FastPath {
 public:
  /// Nothing if the plan has no short form. Keeps a pointer to it.
  static std::optional<FastPath> compile(const plan::Plan& plan, int rank);

  Status run(HostExecutor& executor, const Call& call) const;

  /// What the next call of the same plan will store first: from the frame of this one, in lines.
  /// Wrong behind the last frame of the ring, one call in some 250.
  struct Claim {
    uint64_t offset = 0;
    uint32_t lines = 0;
  };
  const Claim& claim() const { return claim_; }

 private:
  // A source, a target, or what is waited for.
  struct Place {
    static constexpr uint32_t kReady = ~0u;
    uint32_t base = 0;                       // register
    uint32_t peer = kReady;                  // whose cell or counter is waited for; kReady: no wait
    uint64_t offset = 0;                     // from the register; in a cell: from the cell
    uint64_t cell = 0;                       // in a cell: the cell's, from the frame
    plan::Shift shift = plan::Shift::kNone;  // kFrame: in a slot
    uint32_t op = 0;  // of the plan: for who asks during a long wait how far the call has come
    const plan::Plan* plan = nullptr;
  };
  struct Context {
    HostExecutor* executor;
    uint64_t cell_shift;  // of this frame
    uint64_t flag;

    std::byte* base(uint32_t number) const { return executor->registers_[number]; }
    std::byte* cells() const { return executor->mine_.cells() + cell_shift; }  // mine
    std::byte* address(const Place& place) const {
      const HostExecutor::Lane& lane = executor->lanes_[0];
      return base(place.base) + place.offset + lane.shift[static_cast<size_t>(place.shift)];
    }
  };
  class Shown;
  struct Instruction;
  using Handler = bool (*)(const Context&, const Instruction&, const Place*);
  struct Instruction {
    Handler handler;
    types::FoldKernel kernel;
    types::FoldKernel streaming_kernel;  // as plan::Op's
    uint64_t length;                     // elements; signal, reach: the signal
    uint64_t bytes;
    uint64_t cell;     // publish: the cell's offset from the frame
    uint64_t payload;  // publish: the payload's offset from the cell
    Place target;      // wait, reach: for what
    uint32_t first_source;
    uint32_t source_count;
    uint32_t slot_of;  // plan::Op::peer of a move
  };

  void choose_claim();
  void add(const plan::Op& op, uint32_t index);
  bool add_move(const plan::Op& op, uint32_t index);
  Place place_of(const plan::Operand& operand, uint32_t op) const;
  Place await_of(const plan::Op& op, uint32_t index) const;
  void add_flag(const plan::Op& op);
  void add_signal(uint32_t value);

  Status await_credit(HostExecutor& executor, uint64_t cell_shift) const;
  template <class Ready>
  static bool await(const Context& context, const Place& place, Ready ready);
  static const std::byte* in_time(const Context& context, const Place& place);
  template <size_t kBytes>
  static bool publish(const Context& context, const Instruction& op, const Place* sources);
  static bool store_to_cell(const Context& context, const Instruction& op, const Place* sources);
  static bool raise(const Context& context, const Instruction& op, const Place* sources);
  static bool wait(const Context& context, const Instruction& op, const Place* sources);
  static bool signal(const Context& context, const Instruction& op, const Place* sources);
  static bool reach(const Context& context, const Instruction& op, const Place* sources);
  template <size_t kBytes>
  static bool copy(const Context& context, const Instruction& op, const Place* sources);
  static bool copy_slot(const Context& context, const Instruction& op, const Place* sources);
  template <uint32_t kSources>
  static bool fold(const Context& context, const Instruction& op, const Place* sources);
  static bool move(const Context& context, const Instruction& op, const Place* sources);

  std::vector<Instruction> instructions_;
  std::vector<Place> sources_;
  const plan::Plan* plan_ = nullptr;
  uint32_t my_cells_ = 0;  // register
  Claim claim_;
};

// Inline because what a small call stores on its way counts: the processor keeps some 64 stores for
// later, and those behind a cell's flag wait for the line to come from a core that may be far
// (docs/measurements/2026-11-21-small-call.md). A frame less is ten stores less.
inline Status FastPath::run(HostExecutor& executor, const Call& call) const {
  if (!executor.status_.ok()) [[unlikely]]
    return executor.status_;
  ++executor.call_number_;
  executor.call_ = call;
  executor.announce();
  if (plan_->scratch_bytes > 0) [[unlikely]] {
    executor.reserve(*plan_);
    if (!executor.status_.ok()) return executor.status_;
  }
  executor.registers_[plan::register_of(plan::Base::kInput)] =
      static_cast<std::byte*>(const_cast<void*>(call.send));
  executor.registers_[plan::register_of(plan::Base::kOutput)] = static_cast<std::byte*>(call.recv);
  const plan::LanePlan& plan = plan_->lanes[0];
  HostExecutor::Lane& lane = executor.lanes_[0];
  const uint64_t cells =
      plan.cells > 0 ? executor.cells_.take(plan.cells, plan.tiny, lane.progress) : 0;
  if (plan.frame_bytes > 0) [[unlikely]] {
    lane.shift[static_cast<size_t>(plan::Shift::kFrame)] = executor.take_frame(0, plan);
  }
  if (plan.publishes && !(executor.cells_.credited() && lane.ring.credited())) [[unlikely]] {
    if (Status status = await_credit(executor, cells); !status.ok()) return status;
  }
  const Context context{&executor, cells, executor.cell_flag(lane.progress + 1)};
  for (const Instruction& op : instructions_) {
    if (!op.handler(context, op, sources_.data() + op.first_source)) [[unlikely]]
      return executor.status_;
  }
  executor.next_stored_ = claim_.lines > 0 ? executor.mine_.cells() + cells + claim_.offset
                                           : static_cast<const void*>(&executor);
  executor.next_lines_ = claim_.lines;
  lane.progress += plan.advance;
  executor.mine_.counter(0).progress.store(lane.progress, std::memory_order_release);
  return {};
}

}  // namespace tutti::exec
