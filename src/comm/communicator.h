// One rank of one group: what the C API's handle points to.
//
// It joins parts that do not know it: what this rank knows of the others (Membership, Standing),
// why it can go on or not (Failure), memory that ranks know of each other (MemoryTable), what every
// call has around it (CallFrame), what runs calls (Collectives, Transfers, Accesses,
// DeviceStreams), and the model by which they are planned (ModelSurvey). Calls themselves are
// src/operation's.
//
// Owns: those parts. Threads: one call at a time, by the caller's thread or the engine's; destroyed
// when nothing is queued. Errors: after the first failure every call returns it.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/accesses.h"
#include "src/comm/call_frame.h"
#include "src/comm/collectives.h"
#include "src/comm/communicator_options.h"
#include "src/comm/device_streams.h"
#include "src/comm/failure.h"
#include "src/comm/membership.h"
#include "src/comm/memory_table.h"
#include "src/comm/model_survey.h"
#include "src/comm/standing.h"
#include "src/comm/transfers.h"
#include "src/diagnosis/peer_watch.h"

namespace tutti::comm {

class Communicator final {
 public:
  static Result<std::unique_ptr<Communicator>> create(CommunicatorOptions options);
  ~Communicator();

  /// Equal on all its ranks, unique in the job.
  uint64_t id() const { return options_.membership.self.communicator; }
  int rank() const { return membership_->rank(); }
  int ranks() const { return membership_->ranks(); }
  const CommunicatorOptions& made_with() const { return options_; }
  const Membership& membership() const { return *membership_; }
  /// By which algorithms are chosen; equal on all ranks, and never another one.
  const AgreedModel& model() const { return survey_->model(); }
  Standing& standing() { return *standing_; }
  /// Collective, in an epoch that follows an edit, once it is made (MemoryTable::take_over). After
  /// an error the communicator has failed, and nobody touches that memory because of it.
  Result<KeptMemory> take_over(const MemorySource& source, const std::vector<std::string>& lists,
                               const WaitLimit& wait_limit);
  MemoryTable& memory() { return *memory_; }

  /// They run the calls of the host, one at a time.
  Collectives& collectives() { return *collectives_; }
  Transfers& transfers() { return *transfers_; }
  Accesses& accesses() { return *accesses_; }
  CallFrame& frame() { return *frame_; }
  /// Of devices.
  DeviceStreams& streams() { return *streams_; }
  /// Why it cannot go on. It fails, and is aborted, by this.
  Failure& failures() { return *failure_; }

  /// For threads that drive several communicators. Between unsuccessful advances: moves streams,
  /// and whether one moved; `rare`: looks at failures and deadlines.
  bool idle(bool rare);
  /// Before an operation of this priority begins; a thread drives it among others, and says so anew
  /// behind it.
  void begin_among_others(int priority);
  void end_among_others();

  /// For calls that bring none of their own (Planner::options_of).
  void set_options(const CallOptions& options);
  /// Those in force where these are asked for. An error: no collective has such an algorithm.
  Result<CallOptions> accept(const CallOptions& asked) const;

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
    if (streams_ != nullptr) streams_->look();
    return failure_->check();
  }
  /// The same of any of the ranks: on this host at once, elsewhere when the watch has heard of it.
  Status failure_of_any() { return failure_->of_any_rank(executor_->state().peers()); }

  /// Operations queued or running: kept by whoever drives this communicator.
  std::atomic<uint32_t> pending{0};

 private:
  explicit Communicator(CommunicatorOptions options) : options_(std::move(options)) {}

  const Config& config() const { return *options_.membership.env->config; }
  Status join();
  Status open(const WaitLimit& wait_limit);
  Status measure_network(const WaitLimit& wait_limit);
  Status open_watch();
  Status open_streams();
  /// `timeout_ns`: 0: the usual one.
  Result<std::vector<std::string>> gather_texts(const std::string& mine, uint64_t timeout_ns = 0);
  bool is_still_well();

  CommunicatorOptions options_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<ModelSurvey> survey_;
  std::unique_ptr<Standing> standing_;
  std::unique_ptr<Failure> failure_;
  std::unique_ptr<CallRecorder> calls_;
  std::unique_ptr<exec::HostExecutor> executor_;
  std::unique_ptr<MemoryTable> memory_;
  std::unique_ptr<CallFrame> frame_;
  std::unique_ptr<Collectives> collectives_;
  std::unique_ptr<Transfers> transfers_;
  std::unique_ptr<Accesses> accesses_;
  std::unique_ptr<DeviceStreams> streams_;
  std::unique_ptr<diagnosis::PeerWatch> peer_watch_;  // null without a watch
  std::atomic<uint64_t> call_timeout_ns_{0};  // of the options; for threads that are in no call
  bool complete_ = false;                     // every rank can count on this one
};

}  // namespace tutti::comm
