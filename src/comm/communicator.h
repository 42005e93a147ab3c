// One rank of one group: what the C API's handle points to.
//
// It joins parts that do not know it: what this rank knows of the others (Membership), why it can
// go on or not (Failure), memory that ranks know of each other (MemoryTable), what every call has
// around it (CallFrame), and three kinds of work (Collectives, Transfers, Accesses).
//
// Owns: those parts. Threads: one call at a time, by the caller's thread or the engine's; destroyed
// when nothing is queued. Errors: after the first failure every call returns it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/bootstrap/watch.h"
#include "src/comm/accesses.h"
#include "src/comm/attendant.h"
#include "src/comm/call_frame.h"
#include "src/comm/collectives.h"
#include "src/comm/device_calls.h"
#include "src/comm/failure.h"
#include "src/comm/group_history.h"
#include "src/comm/membership.h"
#include "src/comm/memory_table.h"
#include "src/comm/replay_gate.h"
#include "src/comm/request.h"
#include "src/comm/transfers.h"
#include "src/diagnosis/peer_watch.h"

namespace tutti::comm {

struct CommunicatorOptions {
  MembershipOptions membership;
  std::span<const schedule::Algorithm> algorithms;
  std::string origin;                       // a line of explain(): who started the rank
  bootstrap::Watch* watch = nullptr;        // tells when a peer's process is gone
  Attendant* attendant = nullptr;           // moves links for peers that use windows
  std::function<void(plan::Plan&)> tamper;  // PlannerOptions::tamper
  exec::Device* device = nullptr;           // null: calls on device memory cross to the host
  exec::StreamPlace device_place;           // the rank's; without a context it has none
  uint64_t timeout_ns = 0;                  // of calls that have none of their own; 0: the Config's
  uint32_t least_ctas = 1, most_ctas = 0;   // of a kernel that folds device memory; 0: Tutti's own
  const select::Model* model = nullptr;     // tests give ranks one; null: the membership's
  // Of the epochs before this one; null: this is the first.
  std::shared_ptr<GroupHistory> history = nullptr;
};

class Communicator final {
 public:
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  ~Communicator();

  /// Equal on all its ranks, unique in the job.
  uint64_t id() const { return options_.membership.self.communicator; }
  int rank() const { return membership_->rank(); }
  int ranks() const { return membership_->ranks(); }
  const Membership& membership() const { return *membership_; }
  /// By which algorithms are chosen; equal on all ranks, and never another one.
  const AgreedModel& model() const { return model_; }
  /// Of the rank; without a context it has no device.
  const exec::StreamPlace& device_place() const { return options_.device_place; }
  std::shared_ptr<const Roster> roster() const { return membership_->roster(); }
  /// For edits; made at its first use. From any thread.
  Result<std::shared_ptr<GroupHistory>> history();
  /// Where the group stands by its history, which an edit may have taken beyond this epoch though
  /// its links could not be made. From any thread.
  uint32_t standing_epoch() const;
  int standing_rank() const;
  int standing_ranks() const;
  std::vector<MemberId> standing_members() const;
  /// Why no edit can take over what this epoch has; OK if it can.
  Status check_editable();

  /// Whether they may run as one call: nothing has begun after an error.
  Status check(std::span<const exec::Transfer> transfers) const {
    return exec::check_own_transfers(transfers, rank());
  }
  /// One that will be run soon, while nothing is queued.
  void claim(const exec::Transfer& transfer) const { transfers_->claim(transfer); }
  /// Blocks until the rank's part is complete.
  Status run(const Request& request) { return collectives_->run(request); }
  /// `timeout_ns`: as timeout_of() takes it.
  Status run(std::span<const exec::Transfer> transfers, uint64_t timeout_ns) {
    return transfers_->run(transfers, timeout_ns);
  }
  Status run(const Access& access) { return accesses_->run(access, options().timeout_ns); }

  /// The same in pieces, for threads that drive several communicators: queue() when the operation
  /// gets its turn in line, begin() with queue()'s ticket, advance(), and conclude() at its end.
  uint64_t queue(const Request& request);
  uint64_t queue(std::span<const exec::Transfer> transfers);
  uint64_t queue(const Access& access);
  Status begin(const Request& request, uint64_t ticket);
  Status begin(std::span<const exec::Transfer> transfers, uint64_t timeout_ns, uint64_t ticket);
  Status begin(const Access& access, uint64_t timeout_ns, uint64_t ticket);
  void conclude(const Status& status) { frame_->conclude(status); }
  exec::Progress advance() { return active_->advance(); }
  /// Between unsuccessful advances: moves streams, and whether one moved; `rare`: looks at failures
  /// and deadlines.
  bool idle(bool rare);
  /// Before an operation of this priority begins; a thread drives it among others, and says so anew
  /// behind it.
  void begin_among_others(int priority);
  void end_among_others();
  const Status& status() const { return executor_->state().status(); }
  /// Of the operation that advance() says is done (Work::outcome).
  Status outcome() const { return active_->outcome(); }

  /// For calls that bring none of their own.
  void set_options(const CallOptions& options);
  /// How long a call may take whose own limit is `own`. 0: the communicator's, else the Config's;
  /// kNoDeadline: none.
  uint64_t timeout_of(uint64_t own) const { return frame_->timeout_of(own); }
  const CallOptions& options() const { return collectives_->planner().options(); }
  const CallOptions& options_of(const Extras* extras) const {
    return collectives_->planner().options_of(extras);
  }
  /// TUTTI_DETERMINISTIC.
  bool is_deterministic() const { return options_.membership.env->config->deterministic; }
  /// Of calls whose options say nothing of it: TUTTI_WIRE, or what it was made with.
  const std::string& wire() const { return options_.membership.wire; }
  Status check_algorithm(const CallOptions& options) const;
  std::string explain(const Request& request);
  std::string explain_transfer(bool is_send, uint64_t count, types::DataType type);
  /// How long the operation should take; nothing runs, and no other rank is asked.
  Result<double> predict_ns(const Request& request);
  double predict_ns(std::span<const exec::Transfer> transfers) const;
  double predict_ns(const Access& access) const;

  /// Collective (MemoryTable::add). Of device memory (DevicePlaces) it is a hint, which also
  /// succeeds where no call will use it.
  Result<uint64_t> add_registration(const WindowMemory& mine);
  /// From any thread (MemoryTable::remove).
  Status remove_registration(uint64_t number);
  /// Collective (MemoryTable::open).
  Result<Window*> open_window(const WindowMemory& mine, bool keep_closed);
  /// From any thread (MemoryTable::close), within the time that a call may take.
  Status close_window(Window* window);
  /// All of them, before a rank leaves. A peer that stopped in the middle of an access has this
  /// long to end it; then the communicator fails. An error only if it is still inside.
  Status close_windows(uint64_t timeout_ns);

  /// Whether its streams run the request from device to device; equal on all ranks.
  bool takes_on_device(const Request& request, EngineWish asked) const;
  /// Likewise all sends and receives on streams of devices.
  bool takes_transfers_on_device(EngineWish asked) const;
  /// Such a request, or such transfers (DeviceCalls::enqueue). `timeout_ns`: as timeout_of() takes
  /// it.
  Status enqueue(const Request& request, const exec::StreamPlace& where,
                 std::function<void(const Status&)> over);
  Status enqueue(std::span<const exec::Transfer> transfers, std::vector<exec::StreamPlace> where,
                 uint64_t timeout_ns, std::function<void(const Status&)> over);
  /// Before an operation on streams of a device goes by the host: kUnsupported if it was `asked` to
  /// go otherwise. The log is told once for each operation. `request`: null for sends and receives.
  Status check_by_host(const std::string& operation, const Request* request, EngineWish asked);
  /// Before such a request, or such transfers, whose own options ask for the host: peers that would
  /// put it into their streams learn of it. An error has failed the communicator.
  Status declare_by_host(const Request& request);
  Status declare_by_host(std::span<const exec::Transfer> transfers);
  /// By which a call runs, where it can be had: `asked` by its options, or the communicator's wish.
  EngineWish engine_for(EngineWish asked) const {
    return asked == EngineWish::kAuto ? options_.membership.engine : asked;
  }

  /// From now on what runs ends as by abort() once `ordered` is true, which outlives this; null:
  /// no more. By whoever drives it.
  void heed_abort(const std::atomic<bool>* ordered) { failure_->heed_abort(ordered); }
  /// Another rank is in a call that this one has not entered, and waits for it. From any thread.
  bool is_awaited() const { return executor_->state().stall().is_awaited(); }
  /// Before the barrier with which a rank leaves: gives it a deadline, and if it fails nobody
  /// learns of it, unless it was aborted: the others may have much to do among themselves. It ends
  /// early if `wanted` says that this process has something more urgent to do. False if there is
  /// nothing to wait for.
  bool begin_leaving(uint64_t timeout_ns, std::function<bool()> wanted);
  /// Behind it: tells the other ranks if it was aborted, and people, by the log, if it showed that
  /// the calls of the ranks differ.
  void end_leaving();
  /// The running call ends with this error soon. From any thread.
  void abort(Status reason) { failure_->abort(std::move(reason)); }
  /// The same, because the user says so.
  void abort() { failure_->abort(); }
  /// A call that an exception interrupts is half done, here and for the peers: the communicator
  /// fails. By whoever drives it. Returns the reason.
  Status fail_after(const std::exception& error);
  /// The same of a call that the flight recorder is to see end.
  Status end_after(const std::exception& error);
  /// After a failure, when nothing runs any more, by whoever drives this communicator: what begins
  /// from now on returns it, and peers of this host see it in the arena, which their mappings keep.
  void give_up();
  /// Why the communicator is failed, found by a call or by the watch; OK if it is not. From any
  /// thread.
  Status failure() {
    if (device_calls_ != nullptr) device_calls_->look();
    return failure_->check();
  }
  /// The same of any of the ranks: on this host at once, elsewhere when the watch has heard of it.
  Status failure_of_any() { return failure_->of_any_rank(executor_->state().peers()); }

  /// Before a call of it is put into a stream of a device.
  Status open_order();
  /// Before one is captured.
  void open_to_graphs();
  /// No graph runs its calls any more: before what ends it waits for what is pending.
  void close_to_graphs();
  /// Whether graphs may run calls of it at any time. Then no thread drives it but the engine's.
  bool is_replayed() const { return gate_ != nullptr; }
  /// Of all its calls in streams of devices; null: there was none.
  const std::shared_ptr<exec::CallOrder>& call_order() const { return call_order_; }
  const std::shared_ptr<ReplayGate>& gate() const { return gate_; }

  /// Operations queued or running: kept by whoever drives this communicator.
  std::atomic<uint32_t> pending{0};

 private:
  explicit Communicator(CommunicatorOptions options) : options_(std::move(options)) {}

  const Config& config() const { return *options_.membership.env->config; }
  Status join();
  Status open(const Patience& patience);
  void open_collectives(PlannerOptions planning);
  Status open_watch();
  bool measures_host() const;
  Status measure_host(const Patience& patience);
  Status measure_network(const Patience& patience);
  Status add_up(std::span<double> numbers, const Patience& patience);
  Status finish(Status begun, const Patience& patience);
  bool is_first_of_host() const;
  bool keeps_model() const;
  void keep_model();
  Status open_device();
  Status check_devices() const;
  Status check_stream(const exec::StreamPlace& where) const;
  exec::ExecutorOptions executor_options() const;
  PlannerOptions planner_options() const;
  Result<std::unique_ptr<CallRecorder>> make_recorder() const;
  bool is_worth_a_warning(const Request* request);
  Result<select::DeviceWay> find_device_way(bool are_apart);
  std::string reason_by_host(const Request* request, EngineWish asked) const;
  std::string name_of(int rank) const { return membership_->name_of(rank); }
  Result<std::vector<std::string>> gather_texts(const std::string& mine);
  bool is_still_well();

  CommunicatorOptions options_;
  std::unique_ptr<Membership> membership_;
  AgreedModel model_;
  std::unique_ptr<Failure> failure_;
  std::unique_ptr<CallRecorder> calls_;
  std::unique_ptr<exec::HostExecutor> executor_;
  std::unique_ptr<MemoryTable> memory_;
  std::unique_ptr<CallFrame> frame_;
  std::unique_ptr<Collectives> collectives_;
  std::unique_ptr<Transfers> transfers_;
  std::unique_ptr<Accesses> accesses_;
  Work* active_ = nullptr;  // what advance() advances
  DevicePlaces places_;
  std::unique_ptr<DeviceCalls> device_calls_;  // null: no rank has a device
  std::mutex told_mutex_;
  std::set<std::string> told_by_host_;  // under told_mutex_: operations
  bool warned_by_host_ = false;         // under told_mutex_
  std::shared_ptr<exec::CallOrder> call_order_;
  std::shared_ptr<ReplayGate> gate_;
  std::unique_ptr<diagnosis::PeerWatch> peer_watch_;  // null without a watch
  std::atomic<uint64_t> call_timeout_ns_{0};  // of the options; for threads that are in no call
  bool complete_ = false;                     // every rank can count on this one
  mutable std::mutex history_mutex_;
  std::shared_ptr<GroupHistory> history_;  // under history_mutex_
};

}  // namespace tutti::comm
