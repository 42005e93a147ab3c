// The symbolic machine: every rank's plans, walked as an executor walks them, on clocks and values
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
#include "src/plan/walk.h"

namespace tutti::plan::verifier {

/// One action of a thread. For the user's own actions around a call, `phase` is kPrologue before
/// the rank enters it and kDone after it has returned.
struct PlanEvent {
  uint32_t call = 0;
  uint32_t slice = 0;
  uint32_t op = 0;  // of the plan's ops, prologue or epilogue
  Phase phase = Phase::kPrologue;
  bool by_user = false;
};

class Machine {
 public:
  Machine(std::span<const PlanSet* const> calls, const VerifyPlanOptions& options);

  Status run();

 private:
  /// One engine of one rank, as a walk sees it.
  class RankMachine {
   public:
    static constexpr uint64_t kSlicesATurn = ~uint64_t{0} >> 1;

    RankMachine(Machine& all, uint32_t rank) : all_(all), rank_(rank) {}

    Answer enter(const Position& at);
    Answer entered(const Position& at, uint32_t member);
    Answer move(const Position& at, const Op& op);
    Answer read(const Position& at, const Op& op) { return move(at, op); }
    Answer signal(const Position& at, uint64_t value);
    Answer reached(const Position& at, uint32_t member, uint32_t lane, uint64_t value);
    Answer own_reached(const Position& at, uint32_t lane, uint64_t value) {
      return reached(at, rank_, lane, value);
    }
    Answer passed(const Position& at, uint32_t lane, uint64_t value);
    Answer raise(const Position& at, uint64_t cell, uint64_t flag);
    Answer raised(const Position& at, uint32_t member, uint64_t cell, uint64_t flag);
    Answer post(const Position& at, const Op& op);
    Answer arrived(const Position& at, const Op& op);
    Answer sent(const Position& at, const Op& op);
    Answer level(const Position& at, const Op& op);
    void fork();
    void opened(const Position& at);
    void closed(const Position& at);
    void stepped(const Position& at);
    void behind(const Position& at, uint32_t lane, uint64_t slice, uint32_t ops);
    void join();

   private:
    Answer went_on(bool went_on);
    /// In one queue: whether another lane is before this one in it.
    bool is_behind_others(const Position& at) const;

    Machine& all_;
    uint32_t rank_;
  };

  struct Thread {
    uint32_t rank = 0;
    uint32_t lane = 0;
    const char* engine = "";  // of the threads that stand for a transfer: what it does
    Clock clock{};
    std::vector<PlanEvent> events{};  // [time - 1]
  };

  /// A rising counter, with what each of its values publishes.
  struct CounterHistory {
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
  struct PostedTransfer {
    uint32_t thread = 0;
    uint64_t progress = 0;  // of the lane when it opened the slice of the post
    std::vector<Place> places{};
    uint64_t wire_bytes = 0;  // of the message, which may be encoded
    bool done = false;
    bool awaited = false;
  };
  struct TransferChannel {
    std::deque<PostedTransfer*> sends, receives;
  };

  /// A rank in a level call: what it brings, by row of its own.
  struct LevelComer {
    bool has_come = false;
    uint32_t thread = 0;
    Clock clock;
    std::vector<std::vector<Part>> sources;
  };
  /// A level call of the ranks of a host.
  struct LevelMeeting {
    std::vector<LevelComer> comers;  // by rank
    Position at;                     // of who came first
    uint32_t call = 0, number = 0;   // likewise
    uint32_t gone = 0;               // ranks that are past it
  };

  struct Lane {
    std::vector<PostedTransfer> received, sent;
    std::vector<std::vector<Clock>> passed;  // [slice][ops passed], for other lanes
  };

  /// The counts of one engine of a rank, and its position in the plan.
  struct Drive {
    Cursors cursors;
    Walk<RankMachine, FaultyRules> walk;
  };

  struct Rank {
    uint32_t call = 0;
    bool inside = false;             // of the call
    std::vector<Drive> drives;       // [engine]
    std::vector<Cell> cells;         // by flag: see flag_number()
    std::vector<uint32_t> entered;   // [rank]: 1 + the call in which its addresses were learned
    std::vector<Timestamp> entries;  // [call]
    std::vector<Lane> lanes;
    uint32_t level_calls = 0;   // that are behind the rank
    std::deque<uint8_t> queue;  // in one queue: which lanes do what of the call is left
  };

  /// A lane that executes a micro-operation.
  struct Context {
    uint32_t rank;
    uint32_t thread;
    const Position* at;
    const Op* op;  // null between two of them
  };

  static constexpr uint64_t kFirstProgress = 1;
  enum VerifiedMemory : uint32_t {
    kInputs,
    kOutputs,
    kCells,
    kScratches,
    kLandings,
    kEncodeds,
    kSlots
  };

  // Calls: verify_plan_machine.cc.
  void add_rank(uint32_t rank);
  void add_transfers(uint32_t rank, uint32_t lane);
  bool advance(uint32_t rank);
  void enter_call(uint32_t rank);
  std::deque<uint8_t> queue_of(const Plan& plan, Cursors cursors) const;
  void leave_call(uint32_t rank);
  void check_entries(uint32_t rank);
  void join_lanes(uint32_t rank, bool of_other_engines);

  // Waits and signals: verify_plan_sync.cc.
  Context context_of(uint32_t rank, const Position& at) const;
  void check_closed(const Context& at);
  void signal(const Context& at, uint64_t value);
  bool reached(uint32_t thread, uint32_t peer, uint32_t lane, uint64_t progress);
  bool passed(const Context& at, uint32_t lane, uint64_t progress);
  void raise(const Context& at, uint64_t cell, uint64_t flag);
  bool await_cell(const Context& at, uint32_t peer, uint64_t cell, uint64_t flag);
  PlanEvent event_of(const Context& at) const;
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
  void transfer(PostedTransfer& send, PostedTransfer& receive);
  bool await_transfer(const Context& at, bool sends);
  void check_output(uint32_t rank);
  void check_block(uint32_t rank, const Place& block, ValueId required);

  // Level calls: verify_plan_level.cc.
  bool level(const Context& at);
  bool come(const Context& at, LevelMeeting& meeting, LevelComer& mine);
  bool take_rows(const Context& at, const LevelMeeting& meeting);
  bool take_row(const Context& at, const LevelMeeting& meeting, uint32_t row);
  bool bring(const Context& at, const LevelMeeting& meeting, uint32_t from, uint32_t row);
  bool check_level_places(const Context& at);

  // Encodings: verify_plan_encodings.cc.
  /// Encoded memory is kept in bytes of elements: a place of so many of its bytes has room for as
  /// many times this of theirs.
  static uint64_t widening_of(const Plan& plan);
  std::optional<Place> place_encoded(const Context& at, const Operand& operand, uint64_t length);
  bool take(const Context& at, const Operand& source, std::vector<Part>& parts);
  void store(const Context& at, std::span<const Place> targets);
  void check_roundings(uint32_t rank, uint32_t block, std::span<const Part> parts);

  // Text: verify_plan_text.cc.
  void refuse(const std::string& what);
  void refuse_at(const Context& at, const std::string& what);
  void refuse_race(const Place& place, uint32_t thread, const Conflict& conflict, bool writes);
  std::string describe(Timestamp timestamp) const;
  std::string describe(const PlanEvent& event, uint32_t rank) const;
  std::string describe_memory(uint32_t memory) const;
  std::string describe_wait(uint32_t rank) const;
  Status deadlock() const;

  const PlanSet& set_of(uint64_t call) const { return *calls_[call % calls_.size()]; }
  const Plan& plan_of(uint32_t rank) const { return set_of(ranks_[rank].call).plans[rank]; }
  uint32_t thread_of(uint32_t rank, uint32_t lane) const { return rank * lanes_ + lane; }
  bool is_foreign(uint32_t rank, uint32_t lane) const {
    const Plan& plan = plan_of(rank);
    return plan.lanes[lane].engine != plan.lanes[0].engine;
  }
  const Position& position_of(uint32_t rank, uint32_t lane) const {
    const auto engine = static_cast<size_t>(plan_of(rank).lanes[lane].engine);
    return ranks_[rank].drives[engine].walk.position(lane);
  }
  uint32_t memory_of(uint32_t rank, uint32_t kind) const { return rank * (kSlots + lanes_) + kind; }
  bool near(uint32_t a, uint32_t b) const {
    return group_->near(static_cast<int>(a), static_cast<int>(b));
  }
  /// Begins an event of the thread: its clock ticks.
  void begin(uint32_t thread, const PlanEvent& event) {
    threads_[thread].clock.tick(thread);
    threads_[thread].events.push_back(event);
  }
  Actor actor(uint32_t thread) const {
    const Thread& self = threads_[thread];
    return {{thread, static_cast<uint32_t>(self.events.size())}, &self.clock};
  }
  bool ok() const { return failure_.ok(); }

  std::span<const PlanSet* const> calls_;
  const VerifyPlanOptions options_;
  const group::GroupPointer group_;
  const uint32_t total_calls_;
  uint32_t lanes_ = 1;  // the most lanes of any plan
  size_t engines_ = 1;
  uint64_t ring_region_ = 0;  // bytes
  uint64_t cell_region_ = 1;  // cells
  Values values_;
  std::vector<Thread> threads_;  // the lanes of all ranks, then transfers
  std::vector<Memory> memories_;
  std::vector<CounterHistory> counters_;  // [thread of the lane]
  std::vector<Rank> ranks_;
  std::map<std::pair<uint32_t, uint32_t>, LevelMeeting> meetings_;  // by host and number
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, TransferChannel>
      channels_;  // source, target, lane
  /// How each block of an output that all ranks have was rounded, by call and block, on the rank
  /// that returned first.
  struct RoundedRun {
    uint64_t end;
    uint64_t roundings;
    bool operator==(const RoundedRun&) const = default;
  };
  struct RoundedBlock {
    uint32_t rank;
    std::vector<RoundedRun> runs;
  };
  std::map<std::pair<uint32_t, uint32_t>, RoundedBlock> rounded_;
  std::map<const Plan*, std::vector<uint64_t>> encoded_places_;  // where they begin, rising
  // Working memory.
  std::vector<std::vector<Part>> sources_;
  std::vector<Part> folded_, parts_;
  std::vector<ValueId> operands_;
  Status failure_;
};

}  // namespace tutti::plan::verifier
