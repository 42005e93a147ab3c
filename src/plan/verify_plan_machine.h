// The symbolic executor: every rank's plans, as exec::HostExecutor runs them, on clocks and values
// instead of bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "src/base/status.h"
#include "src/plan/verify_plan.h"
#include "src/plan/verify_plan_memory.h"
#include "src/plan/verify_plan_order.h"
#include "src/plan/verify_plan_value.h"

namespace tutti::plan::verifier {

enum class Phase : uint8_t { kEntry, kPrologue, kSlices, kEpilogue, kReturn };

/// What a thread did at one moment.
struct Deed {
  uint32_t call = 0;
  uint32_t slice = 0;
  uint32_t op = 0;  // of the plan's ops, prologue or epilogue
  Phase phase = Phase::kEntry;
};

class Machine {
 public:
  Machine(std::span<const PlanSet* const> calls, const VerifyOptions& options);

  Status run();

 private:
  struct Thread {
    uint32_t rank = 0;
    uint32_t lane = 0;
    const char* engine = "";  // of the threads that stand for a transfer: what it does
    Clock clock{};
    std::vector<Deed> deeds{};  // [time - 1]
  };

  /// A rising counter, with what each of its values publishes.
  struct Counter {
    uint64_t value = kFirstProgress;
    struct Signal {
      uint64_t value;
      Clock clock;
    };
    std::vector<Signal> signals;
  };

  struct Cell {
    uint64_t flag = 0;
    Clock clock;
  };

  /// Bytes of one memory.
  struct Place {
    uint32_t memory = 0;
    Range range;
  };

  /// A posted send or receive: a thread of its own from the post until it is awaited.
  struct Transfer {
    uint32_t thread = 0;
    uint64_t progress = 0;  // of the lane when it opened the slice of the post
    std::vector<Place> places{};
    bool done = false;
    bool awaited = false;
  };
  struct Channel {
    std::deque<Transfer*> sends, receives;
  };

  struct Lane {
    uint64_t progress = kFirstProgress;
    Ring ring;
    uint64_t slice = 0;
    uint32_t op = 0;
    bool open = false;
    uint64_t frame = 0;
    std::vector<Transfer> received, sent;
    std::vector<std::vector<Clock>> passed;  // [slice][ops passed], for other lanes
  };

  struct Rank {
    uint32_t call = 0;
    Phase phase = Phase::kEntry;
    uint32_t next = 0;  // of the prologue or epilogue
    Ring cell_ring;
    uint64_t cell = 0;              // where the frame's cells begin in the ring, in bytes
    uint32_t tiny_parts = 0;        // of the last cell, taken by frames; 0: it is whole
    std::vector<Cell> cells;        // by flag: see flag_number()
    std::vector<uint32_t> entered;  // [rank]: 1 + the call in which its addresses were learned
    std::vector<Moment> entries;    // [call]
    std::vector<Lane> lanes;
  };

  /// A lane that executes a micro-operation.
  struct Context {
    uint32_t rank;
    uint32_t lane;
    uint32_t thread;
    const Op* op;
  };

  static constexpr uint64_t kFirstProgress = 1;
  enum MemoryKind : uint32_t { kInputs, kOutputs, kCells, kScratches, kLandings, kSlots };

  // Control: verify_plan_machine.cc.
  void add_rank(uint32_t rank);
  void add_transfers(uint32_t rank, uint32_t lane);
  bool advance(uint32_t rank);
  void enter_call(uint32_t rank);
  bool run_prologue(uint32_t rank);
  bool run_lanes(uint32_t rank, bool& moved);
  bool run_lane(uint32_t rank, uint32_t lane);
  bool may_open(uint32_t rank, uint32_t lane);
  static void take_cells(Rank& rank, const LanePlan& plan);
  void open_slice(uint32_t rank, uint32_t lane);
  void close_slice(uint32_t rank, uint32_t lane);
  void join_lanes(uint32_t rank);
  bool run_epilogue(uint32_t rank);
  void leave_call(uint32_t rank);
  void check_entries(uint32_t rank);

  // Waits and signals: verify_plan_sync.cc.
  bool execute(const Context& at);
  void signal(const Context& at);
  bool reached(uint32_t thread, uint32_t peer, uint32_t lane, uint64_t progress);
  bool credit(const Context& at);
  bool passed(const Context& at, uint32_t lane, uint64_t progress);
  void raise(const Context& at, uint64_t cell, uint64_t flag);
  bool await_cell(const Context& at, uint64_t cell, uint64_t flag);
  bool after(const Context& at);
  Deed deed_of(const Context& at) const;
  static size_t flag_number(uint64_t cell);
  Place flag_place(uint32_t rank, uint64_t cell, bool entry) const;

  // Memory: verify_plan_access.cc.
  std::optional<Place> place(const Context& at, const Operand& operand, uint64_t length);
  std::optional<Place> place_near(const Context& at, const Operand& operand, Range range);
  std::optional<Place> place_user(const Context& at, uint32_t owner, const Operand& operand,
                                  Range range);
  Place user_place(uint32_t rank, bool output, uint64_t call) const;
  void move(const Context& at);
  void fold(const Plan& plan, const Op& op);
  bool may_write(const Context& at, const Operand& target);
  bool read(const Place& place, uint32_t thread, std::vector<Part>& parts);
  bool write(const Place& place, uint32_t thread, std::span<const Part> parts);
  void post(const Context& at, bool sends);
  void transfer(Transfer& send, Transfer& receive);
  bool await_transfer(const Context& at);
  void check_output(uint32_t rank);
  void check_block(uint32_t rank, const Place& block, ValueId required);

  // Text: verify_plan_text.cc.
  void refuse(const std::string& what);
  void refuse_at(const Context& at, const std::string& what);
  void refuse_race(const Place& place, uint32_t thread, const Conflict& conflict, bool writes);
  std::string describe(Moment moment) const;
  std::string describe(const Deed& deed, uint32_t rank) const;
  std::string describe_memory(uint32_t memory) const;
  std::string describe_wait(uint32_t rank) const;
  Status deadlock() const;

  const PlanSet& set_of(uint64_t call) const { return *calls_[call % calls_.size()]; }
  const Plan& plan_of(uint32_t rank) const { return set_of(ranks_[rank].call).plans[rank]; }
  uint32_t thread_of(uint32_t rank, uint32_t lane) const { return rank * lanes_ + lane; }
  uint32_t memory_of(uint32_t rank, uint32_t kind) const { return rank * (kSlots + lanes_) + kind; }
  bool near(uint32_t a, uint32_t b) const {
    return group_.near(static_cast<int>(a), static_cast<int>(b));
  }
  /// Begins a deed of the thread: its clock ticks.
  void begin(uint32_t thread, const Deed& deed) {
    threads_[thread].clock.tick(thread);
    threads_[thread].deeds.push_back(deed);
  }
  Actor actor(uint32_t thread) const {
    const Thread& self = threads_[thread];
    return {{thread, static_cast<uint32_t>(self.deeds.size())}, &self.clock};
  }
  bool ok() const { return failure_.ok(); }

  std::span<const PlanSet* const> calls_;
  const VerifyOptions options_;
  const Group& group_;
  const uint32_t total_calls_;
  uint32_t lanes_ = 1;        // the most lanes of any plan
  uint64_t ring_region_ = 0;  // bytes
  uint64_t cell_region_ = 1;  // cells
  Values values_;
  std::vector<Thread> threads_;  // the lanes of all ranks, then transfers
  std::vector<Memory> memories_;
  std::vector<Counter> counters_;  // [thread of the lane]
  std::vector<Rank> ranks_;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, Channel> channels_;  // source, target, lane
  // Working memory.
  std::vector<std::vector<Part>> sources_;
  std::vector<Part> folded_, parts_;
  std::vector<ValueId> operands_;
  Status failure_;
};

}  // namespace tutti::plan::verifier
