// One rank of one group: what the C API's handle points to.
//
// Owns: the membership (arena, links), the executor and the plans. Threads: one call at a time, by
// the caller's thread or the engine's; destroyed when nothing is queued. Errors: after the first
// failure every call returns it.
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
#include "src/comm/attendant.h"
#include "src/comm/call_recorder.h"
#include "src/comm/device_calls.h"
#include "src/comm/membership.h"
#include "src/comm/peer_watch.h"
#include "src/comm/planner.h"
#include "src/comm/request.h"
#include "src/comm/vector_call.h"
#include "src/comm/window.h"
#include "src/exec/pairs.h"

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
};

class Communicator final : public exec::Health, private exec::ProgressSource {
 public:
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  ~Communicator() override;

  /// Equal on all its ranks, unique in the job.
  uint64_t id() const { return options_.membership.self.communicator; }
  int rank() const { return membership_->rank(); }
  int ranks() const { return membership_->ranks(); }
  const Membership& membership() const { return *membership_; }
  /// Of the rank; without a context it has no device.
  const exec::StreamPlace& device_place() const { return options_.device_place; }
  std::shared_ptr<const Roster> roster() const { return membership_->roster(); }

  /// Whether they may run as one call: nothing has begun after an error.
  Status check(std::span<const exec::Transfer> transfers) const {
    return exec::check_own_transfers(transfers, rank());
  }
  /// One that will be run soon, while nothing is queued.
  void claim(const exec::Transfer& transfer) const { pairs_->claim(transfer); }
  /// Blocks until the rank's part is complete.
  Status run(const Request& request);
  /// `timeout_ns`: as timeout_of() takes it.
  Status run(std::span<const exec::Transfer> transfers, uint64_t timeout_ns);
  Status run(const Access& access);

  /// The same in pieces, for threads that drive several communicators: queue() when the operation
  /// gets its turn in line, begin() with queue()'s ticket, advance(), and conclude() at its end.
  uint64_t queue(const Request& request);
  uint64_t queue(std::span<const exec::Transfer> transfers);
  uint64_t queue(const Access& access);
  Status begin(const Request& request, uint64_t ticket);
  Status begin(std::span<const exec::Transfer> transfers, uint64_t timeout_ns, uint64_t ticket);
  Status begin(const Access& access, uint64_t timeout_ns, uint64_t ticket);
  void conclude(const Status& status);
  exec::Progress advance();
  /// Between unsuccessful advances: moves streams, and whether one moved; `rare`: looks at failures
  /// and deadlines.
  bool idle(bool rare);
  const Status& status() const { return executor_->state().status(); }
  /// Of the operation that advance() says is done. It may fail though the communicator does not: an
  /// access outside a window, a call that no algorithm can run.
  Status outcome() const;

  /// For calls that bring none of their own.
  void set_options(const CallOptions& options);
  /// How long a call may take whose own limit is `own`. 0: the communicator's, else the Config's;
  /// kNoDeadline: none.
  uint64_t timeout_of(uint64_t own) const;
  const CallOptions& options() const { return planner_->options(); }
  const CallOptions& options_of(const Extras* extras) const { return planner_->options_of(extras); }
  /// TUTTI_DETERMINISTIC.
  bool is_deterministic() const { return options_.membership.env->config->deterministic; }
  Status check_algorithm(const CallOptions& options) const;
  std::string explain(const Request& request);
  std::string explain_transfer(bool is_send, uint64_t count, types::DataType type);
  /// How long the operation should take; nothing runs, and no other rank is asked.
  Result<double> predict_ns(const Request& request);
  double predict_ns(std::span<const exec::Transfer> transfers) const;
  double predict_ns(const Access& access) const;

  /// Collective. The memory is a whole arena's, or its beginning. Returns the registration's
  /// number.
  Result<uint32_t> add_registration(const WindowMemory& mine);
  /// From any thread; known to calls that begin afterwards. What this rank has mapped for it goes
  /// at once, or with the call that uses registered memory.
  Status remove_registration(uint64_t number);
  /// Collective. The window is the communicator's. `keep_closed`: somebody may still have closed
  /// ones; else this frees them.
  Result<Window*> open_window(const WindowMemory& mine, bool keep_closed);
  /// Ends this rank's part of it: its memory is not touched any more, unless the error says who is
  /// still inside. From any thread, while another one is in a call. Without an error the window is
  /// freed when this rank opens another one.
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
  /// By which a call runs, where it can be had: `asked` by its options, or the communicator's wish.
  EngineWish engine_for(EngineWish asked) const {
    return asked == EngineWish::kAuto ? options_.membership.engine : asked;
  }

  /// From now on what runs ends as by abort() once `ordered` is true, which outlives this; null:
  /// no more. By whoever drives it.
  void heed_abort(const std::atomic<bool>* ordered) { abort_ordered_ = ordered; }
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
  /// What runs ends with this error soon. From any thread.
  void abort(Status reason);
  /// The same, because the user says so.
  void abort();
  /// What an exception interrupts is half done, here and in what peers see: the communicator fails.
  /// By whoever drives it. Returns the reason.
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
    return check();
  }
  /// The same of any of the ranks: on this host at once, elsewhere when the watch has heard of it.
  Status failure_of_any();

  /// Operations queued or running: kept by whoever drives this communicator.
  std::atomic<uint32_t> pending{0};

 private:
  explicit Communicator(CommunicatorOptions options);
  std::string reason_by_host(const Request* request, EngineWish asked) const;

  trace::RecorderOptions recorder_options() const;
  Status open_recorder();
  PlannerOptions planner_options() const;
  Status open_device();
  Status check_devices() const;
  Status check() override;
  Status check_leaving() const;
  Status map_registration(exec::Registration& made, std::span<const std::string> texts);
  exec::Cause cause() const override;
  exec::Cause cause_or_self() const;
  std::string name_of(int rank) const override;
  void report(const std::string& text) override;
  void fail(Status reason, const exec::Cause& cause);
  /// What a thread that is in no call has found holds for the calls behind it, also for those that
  /// wait for nobody.
  void heed_failure() {
    if (failed_.load(std::memory_order_relaxed)) [[unlikely]]
      begin_failed();
  }
  [[gnu::noinline, gnu::cold]] void begin_failed();
  bool is_abort_ordered() const {
    return abort_ordered_ != nullptr && abort_ordered_->load(std::memory_order_acquire);
  }
  /// Whether and where a call's buffers are one: `recv` lies `offset` bytes behind `send`.
  struct Placement {
    bool possible = false;
    uintptr_t offset = 0;  // modulo 2^64
    bool holds(const Request& request) const {
      const auto send = reinterpret_cast<uintptr_t>(request.send);
      return possible && reinterpret_cast<uintptr_t>(request.recv) - send == offset;
    }
  };
  /// What a call that only repeats another one, on any buffers, need not work out again.
  struct Repeat {
    Request last{.root = -1};  // which no call has
    Placement placement;
    bool is(const Request& request) const {
      return request.count == last.count && request.collective == last.collective &&
             request.type == last.type && request.op == last.op && request.root == last.root;
    }
  };

  Placement placement_of(const Request& request) const;
  bool is_in_place(const Request& request) const { return placement_of(request).holds(request); }
  uint64_t output_bytes(const Request& request) const;
  /// Through staging, whatever memory is registered.
  bool is_always_staged(uint64_t output_bytes) const;
  Reach reach_of(const Request& request);
  bool are_registered(const Request& request) const;
  Result<const Prepared*> prepare(const Request& request);
  uint64_t send_elements(const Request& request) const;
  Result<Request> contribute(const Request& request);
  Result<Request> contribution_of(const Request& request);
  Status run_any(const Request& request);
  Status run_slowly(const Request& request);
  Status run_plan(const Request& request);
  Status run_fast(const Request& request, const Prepared& ready);
  std::string rounds_before(const Request& request, bool in_place);
  Result<const Prepared*> next_vector_run(exec::Call& call);
  Status run_vectors(const Request& request);
  Status begin_vectors(const Request& request, uint64_t ticket);
  bool start_vectors();
  exec::Call call_of(const Request& request, const Prepared& prepared) const;
  uint64_t deadline_from_now(const Extras* extras) const;
  uint64_t deadline_of_call(uint64_t own_timeout_ns) const;
  exec::Call transfers_call(uint64_t own_timeout_ns) const;
  Result<std::vector<std::string>> gather_texts(const std::string& mine);
  void name_access(const Access& access, uint64_t own_timeout_ns);
  exec::Progress advance_access();
  void tell_progress(trace::Recorder& recorder, const exec::Stall& stall) const override;
  Status be_attended();
  void leave_attendant();
  void forget_closed();
  Status close_until(Window* window, uint64_t deadline_ns);
  void publish_failure();
  void leave_windows();
  bool is_still_well();
  bool use_registered(const Request& request);
  void end_use_of_registered();
  exec::Registration take_out(uint32_t number);

  CommunicatorOptions options_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<exec::HostExecutor> executor_;
  std::unique_ptr<exec::PairExecutor> pairs_;
  std::unique_ptr<CallRecorder> calls_;
  trace::Recorder* recorder_ = nullptr;  // calls_'s
  std::unique_ptr<Planner> planner_;
  std::atomic<bool> failed_{false};
  Repeat repeat_;
  std::unique_ptr<VectorCall> vectors_;
  std::unique_ptr<DeviceCalls> device_calls_;  // null: no rank has a device
  std::mutex told_mutex_;
  std::set<std::string> told_by_host_;  // under told_mutex_: operations
  Status outcome_;
  bool direct_ = false;       // all ranks of the domain are threads of this process
  bool reads_peers_ = false;  // single copy is possible and wanted
  enum class Active : uint8_t { kPlan, kPairs, kAccess };
  Active active_ = Active::kPlan;  // what advance() advances
  Access access_;
  uint32_t transfer_calls_ = 0;
  uint32_t access_calls_ = 0;
  std::vector<std::unique_ptr<Window>> windows_;  // also closed ones, which a call may still be in
  std::mutex registered_mutex_;
  std::vector<uint32_t> registered_;          // under registered_mutex_; for collectives
  std::vector<uint32_t> retired_;             // under it: the running call may use them
  bool uses_registered_ = false;              // written under it, by the thread in the call
  std::atomic<bool> has_registered_{false};   // the executor has some; written under it
  std::vector<Window*> closed_;               // under it: in windows_
  std::atomic<uint64_t> call_timeout_ns_{0};  // of the options; for threads that are in no call
  bool complete_ = false;                     // every rank can count on this one
  bool left_windows_ = false;
  bool began_leaving_ = false;
  std::function<bool()> wanted_elsewhere_;  // while it leaves
  uint32_t regions_ = 0;
  std::vector<transport::Link*> attended_;
  std::unique_ptr<std::byte[]> contribution_;  // grown: the scaled input of a call
  uint64_t contribution_capacity_ = 0;
  const std::atomic<bool>* abort_ordered_ = nullptr;
  mutable std::mutex failure_mutex_;
  Status failure_;                         // under failure_mutex_
  exec::Cause cause_;                      // of it; under failure_mutex_
  std::unique_ptr<PeerWatch> peer_watch_;  // null without a watch
};

}  // namespace tutti::comm
