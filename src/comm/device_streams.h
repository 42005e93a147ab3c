// Calls on streams of devices, as a communicator knows them: who runs them, in which order they
// are, and which graphs may run them again.
//
// It is there for every communicator, also where no rank has a device: then it says so when it is
// asked why a call goes by the host.
//
// Owns:    the calls of the rank's streams (DeviceCalls), registered device memory, their order.
// Threads: one at a time; look() and remove() any. Lifetime: within what it is given.
// Errors:  those of unsupported_reason() are none: they say why a call goes by the host.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/wait_limit.h"
#include "src/comm/call_recorder.h"
#include "src/comm/device_calls.h"
#include "src/comm/failure.h"
#include "src/comm/host_numbers.h"
#include "src/comm/host_rounds.h"
#include "src/comm/membership.h"
#include "src/comm/memory_table.h"
#include "src/comm/replay_gate.h"

namespace tutti::comm {

struct DeviceStreamsOptions {
  exec::Device* device = nullptr;          // null: no stream of a device is ever used
  exec::StreamPlace place;                 // the rank's; without a context it has none
  EngineWish engine = EngineWish::kAuto;   // the communicator's wish
  uint32_t least_ctas = 1, most_ctas = 0;  // of a kernel that folds device memory; 0: Tutti's own
  const Env* env = nullptr;
};

/// Why an operation on a stream of a device goes by the host.
struct HostWay {
  std::string operation;  // for messages
  Status why;
  EngineWish asked = EngineWish::kAuto;  // by the operation's options
  bool may = false;  // operations of its kind go by streams, where nothing is in their way
};

class DeviceStreams {
 public:
  DeviceStreams(const DeviceStreamsOptions& options, const Membership& membership, Failure& failure,
                CallRecorder& host_calls, GatherTexts gather)
      : options_(options),
        membership_(membership),
        failure_(failure),
        host_calls_(host_calls),
        gather_(std::move(gather)) {}

  using MakeRecorder = std::function<Result<std::unique_ptr<CallRecorder>>()>;
  /// Collective, where some rank has a device. `planner` outlives its calls.
  Status open(Planner& planner, const MakeRecorder& make_recorder);
  /// The streams are past all calls, or never will be.
  void close() { calls_.reset(); }

  exec::Device& device() const { return *options_.device; }
  const exec::StreamPlace& place() const { return options_.place; }
  /// Whether some rank has a device.
  bool any() const { return calls_ != nullptr; }
  /// OK: streams can run calls from device to device. Equal on all ranks.
  Status check_rings() const;
  /// If unsupported_reason() has none.
  DeviceCalls& calls() { return *calls_; }
  /// Finds out whether a peer has given up.
  void look() const {
    if (calls_ != nullptr) calls_->look();
  }

  /// Why the request goes by the host; OK: its streams run it from device to device. Equal on all
  /// ranks. `asked`: by its options.
  Status unsupported_reason(const Request& request, EngineWish asked) const;
  /// Why ranks on several hosts send it through the host as a whole, DeviceCalls's.
  Status objection_to_network(const Request& request, EngineWish asked) const;
  Status objection_to_network(std::span<const exec::Transfer> transfers, EngineWish asked) const;
  /// The same of sends and receives.
  Status unsupported_transfers(std::span<const exec::Transfer> transfers, EngineWish asked) const;
  /// kUnsupported if the options asked for another way. The log is told once for each operation.
  Status check_host_way(const HostWay& way);
  /// If the options ask for the host: peers that would put it into their streams learn of it. An
  /// error has failed the communicator.
  Status announce_host_way(const Request& request, EngineWish asked);
  Status announce_host_way(std::span<const exec::Transfer> transfers, EngineWish asked);
  /// The ring and the counters are known in the context of the rank's device only.
  Status check_place(const exec::StreamPlace& where) const;
  /// How, or why not. A line, or none.
  std::string explain(const Request& request, bool in_place, EngineWish asked);
  std::string explain(std::span<const exec::Transfer> transfers, EngineWish asked);

  /// Collective, of device memory; for MemoryTable::add(). `failed`: why it is no registration at
  /// all.
  uint64_t add(const WindowMemory& mine, Status& failed);
  Status remove(uint64_t number);
  const DevicePlaces& places() const { return places_; }
  /// Collective, in an epoch that follows an edit: what it keeps of the one before, of which a
  /// newcomer has none (null).
  Status take_over(const DevicePlaces* before, KeptMemory& kept);
  /// Collective, with a device or without: parts of a window in device memory (ShareDevices).
  Result<DeviceParts> share(const WindowMemory& mine);

  /// All members have agreed on the next epoch: that calls of this one end is nobody's error.
  void be_quiet() {
    if (calls_ != nullptr && calls_->recorder() != nullptr) calls_->recorder()->be_quiet();
  }
  /// Before an edit: until the streams are past this rank's calls and runs of graphs, which a
  /// failure of the communicator lets go.
  Status await_over(const WaitLimit& wait_limit);
  /// Collective, where some rank has a device. Waits, for at most `patience_ns`, until the rank's
  /// streams are past its calls, and gives the memory back that these need, of the device and
  /// pinned: no call of the communicator may come before resume(). kTimeout, on all ranks: calls of
  /// some rank are still under way; nobody is suspended.
  Status suspend(uint64_t patience_ns);
  /// Collective, behind suspend(). kSystemError, on all ranks: some rank found no memory; all are
  /// suspended as before.
  Status resume(uint64_t patience_ns);
  /// Device memory that suspend() gives back, of this rank's.
  uint64_t device_bytes() const;

  /// Of all calls in streams of devices. Made before the first of them.
  Result<exec::CallOrder*> order();
  /// DeviceRank::cross(), in memory that the hardware of this communicator's transports knows: what
  /// lies in the bounce buffer goes to peers, and comes from them, without a copy by a processor.
  template <class Streamed, class Shape>
  Result<std::shared_ptr<exec::NetworkCrossing>> cross(Streamed call,
                                                       std::shared_ptr<const Shape> shape,
                                                       std::function<void()> arrived) {
    auto made = calls_->rank().cross(std::move(call), std::move(shape), std::move(arrived));
    if (made.ok()) announce(*made.value());
    return made;
  }
  /// Before a call of the communicator is captured.
  void open_to_graphs(Communicator& communicator);
  /// No graph runs its calls any more: before what ends it waits for what is pending. `warning`: as
  /// LateGraphs has it.
  void close_to_graphs(const std::string& warning);
  /// Whether graphs may run calls of it at any time. Then no thread drives it but the engine's.
  bool is_replayed() const { return gate_ != nullptr; }
  const std::shared_ptr<ReplayGate>& gate() const { return gate_; }

 private:
  Status check_devices() const;
  exec::VendorWish vendor_wish(const select::Model& model) const;
  bool is_networked() const { return membership_.domain_size() != membership_.ranks(); }
  /// Its own problem, or `of_others` with that of the first rank that has one.
  Status agree(HostRounds& rounds, const Status& mine, Code of_others = Code::kUnsupported);
  exec::DeviceGroup group_of(const HostNumbers& numbers, HostRounds& rounds) const;
  bool has_ring() const { return check_rings().ok(); }
  Result<bool> are_streams_past();
  Status wait_until_over(uint64_t patience_ns);
  Status agree_or_undo(const Status& mine, Code of_others, const std::function<Status()>& undo);
  exec::DeviceRankOptions rank_options(CallRecorder& recorder, const select::Model& model);
  Result<std::shared_ptr<const exec::PeerMemory>> share_all(std::byte* memory, uint64_t bytes);
  Result<select::DeviceWay> find_way(bool are_apart);
  /// By which a call runs, where it can be had.
  EngineWish engine_for(EngineWish asked) const {
    return asked == EngineWish::kAuto ? options_.engine : asked;
  }
  bool is_worth_a_warning(const HostWay& way) TUTTI_REQUIRES(told_mutex_);
  std::string name_of(int rank) const { return membership_.name_of(rank); }

  void announce(exec::NetworkCrossing& crossing);
  const std::shared_ptr<LateGraphs>& late_graphs();

  const DeviceStreamsOptions options_;
  const Membership& membership_;
  Failure& failure_;
  CallRecorder& host_calls_;
  const GatherTexts gather_;
  DevicePlaces places_;
  std::optional<HostNumbers> numbers_;  // as long as calls_, which has DeviceRank's functions
  std::optional<HostRounds> rounds_;
  std::unique_ptr<DeviceCalls> calls_;  // null: no rank has a device
  Mutex told_mutex_;
  std::set<std::string> told_by_host_ TUTTI_GUARDED_BY(told_mutex_);  // operations
  bool warned_by_host_ TUTTI_GUARDED_BY(told_mutex_) = false;
  std::shared_ptr<exec::CallOrder> order_;
  std::shared_ptr<ReplayGate> gate_;
  std::shared_ptr<LateGraphs> late_graphs_;  // null: there are no graphs
  // Of pinned memory that bounce buffers have lain in, by its begin; they keep that memory.
  std::map<const std::byte*, std::shared_ptr<const void>> announced_;
};

}  // namespace tutti::comm
