// Superinstructions: the short form of plans that consist of small messages only.
//
// A plan whose messages all travel in cells, with one lane and one slice, is a few [publish] and
// [wait for the sources, fold, store]. They are compiled to function pointers specialised on size,
// with everything resolved but the position in the cell ring. The interpreter runs the same plan
// with the same effect on the executor's state; this form only saves instructions
// (docs/measurements).
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
  /// Nothing if the plan has anything but small messages.
  static std::optional<FastPath> compile(const plan::Plan& plan, int rank);

  Status run(HostExecutor& executor, const Call& call) const;

 private:
  struct Source {
    uint32_t base;    // register
    uint32_t peer;    // kLocal: memory of this rank
    uint64_t offset;  // local: from the register. Message: the payload's, from the cell
    uint64_t cell;    // message: the cell's, from the frame
    const plan::Plan* plan = nullptr;  // for who asks during a long wait how far the call has come
    static constexpr uint32_t kLocal = ~0u;
  };
  struct Context {
    HostExecutor* executor;
    uint64_t cell_shift;  // of this frame
    uint64_t flag;

    std::byte* base(uint32_t number) const { return executor->registers_[number]; }
    std::byte* cells() const { return executor->mine_.cells() + cell_shift; }  // mine
  };
  struct Instruction;
  using Handler = bool (*)(const Context&, const Instruction&, const Source*);
  struct Instruction {
    Handler handler;
    types::FoldKernel kernel;
    uint64_t length;   // elements; publish: bytes
    uint64_t cell;     // publish: the cell's offset from the frame
    uint64_t payload;  // publish: the payload's offset from the cell
    Source target;
    uint32_t first_source;
    uint32_t source_count;
  };

  bool add_move(const plan::Plan& plan, const plan::Op& op, uint32_t my_cells);
  Source source_of(const plan::Operand& operand, uint32_t my_cells) const;
  void add_flag(const plan::Op& op);

  Status await_credit(HostExecutor& executor, uint64_t cell_shift) const;
  static bool await(const Context& context, const Flag& flag, const Source& source);
  static const std::byte* in_time(const Context& context, const Source& source);
  template <size_t kBytes>
  static bool publish(const Context& context, const Instruction& op, const Source* sources);
  static bool store_to_cell(const Context& context, const Instruction& op, const Source* sources);
  static bool raise(const Context& context, const Instruction& op, const Source* sources);
  static bool wait(const Context& context, const Instruction& op, const Source* sources);
  template <size_t kBytes>
  static bool copy(const Context& context, const Instruction& op, const Source* sources);
  template <uint32_t kSources>
  static bool fold(const Context& context, const Instruction& op, const Source* sources);
  static bool fold_any(const Context& context, const Instruction& op, const Source* sources);

  std::vector<Instruction> instructions_;
  std::vector<Source> sources_;
  const plan::Plan* plan_ = nullptr;
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
  if (plan_->scratch_bytes > 0) [[unlikely]]
    executor.reserve(*plan_);
  executor.registers_[plan::register_of(plan::Base::kInput)] =
      static_cast<std::byte*>(const_cast<void*>(call.send));
  executor.registers_[plan::register_of(plan::Base::kOutput)] = static_cast<std::byte*>(call.recv);
  const plan::LanePlan& plan = plan_->lanes[0];
  HostExecutor::Lane& lane = executor.lanes_[0];
  const uint64_t shift = executor.cells_.take(plan.cells, plan.tiny, lane.progress);
  if (plan.publishes && !executor.cells_.credited()) [[unlikely]] {
    if (Status status = await_credit(executor, shift); !status.ok()) return status;
  }
  const Context context{&executor, shift, executor.cell_flag(lane.progress + 1)};
  for (const Instruction& op : instructions_) {
    if (!op.handler(context, op, sources_.data() + op.first_source)) [[unlikely]]
      return executor.status_;
  }
  lane.progress += plan.advance;
  executor.mine_.counter(0).progress.store(lane.progress, std::memory_order_release);
  return {};
}

}  // namespace tutti::exec
