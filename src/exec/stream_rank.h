// A rank whose group talks from device to device, by streams that copy and wait for each other
// (DeviceRank), and the calls that it takes. Engines implement it (src/engines/<vendor>); nothing
// here is any vendor's.
//
// A stream that is *captured* runs nothing: what is put into it becomes part of a graph, which its
// owner runs as often as wanted. A captured call is put there once and runs with the graph.
//
// Threads: as each class says. Errors: kUnsupported, kInvalidUsage for what the stream cannot hold,
// kSystemError where memory runs out. Nothing here waits for a device, but the destructor of a
// rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/diagnosis/described_call.h"
#include "src/exec/arena_map.h"
#include "src/exec/bounce_buffer.h"
#include "src/exec/bounce_pairs.h"
#include "src/exec/call_state.h"
#include "src/exec/device_memory.h"
#include "src/exec/transfer.h"
#include "src/exec/vendor_library.h"
#include "src/plan/plan.h"
#include "src/trace/recorder.h"
#include "src/transport/transport.h"
#include "src/types/scalar.h"

namespace tutti::exec {

/// A stream, and what must be current in a thread that uses it.
struct StreamPlace {
  void* context = nullptr;
  void* stream = nullptr;
  uint64_t capture = 0;   // which one the stream is in; 0: none, what is put there runs
  void* graph = nullptr;  // that the capture makes
};

/// The order of a communicator's calls in streams, captured ones and others, whatever streams and
/// devices they are on, from device to device or through the host: calls run in the order in which
/// they, or the graphs that hold them, were put into streams. The handle of a stream does not say
/// which one it is: a stream may get that of another one that is gone, and several may share one.
/// Threads: one at a time. A captured call's graph keeps it (Device::keep).
class CallOrder {
 public:
  virtual ~CallOrder() = default;
  /// All that is put into the streams from now on is behind all calls so far.
  virtual Status begin(std::span<const StreamPlace> streams) = 0;
  /// A call ends with what the streams, those of its begin(), hold. A call that comes behind it is
  /// behind all of them.
  virtual Status end(std::span<const StreamPlace> streams) = 0;
  /// Whether the streams are past all calls so far, those of graphs that were launched included.
  virtual Result<bool> is_over() const = 0;
};

/// How much a call puts into a stream.
struct DeviceCounts {
  uint64_t copies = 0;      // in all batches
  uint64_t crossing = 0;    // of them: to or from what is not on the rank's device
  uint64_t batches = 0;     // of copies: calls of the driver, or in graphs nodes beside each other
  uint64_t operations = 0;  // waits and writes
  uint64_t waits = 0;       // of them
  uint64_t groups = 0;      // of operations: calls of the driver
  uint64_t kernels = 0;
  uint64_t multicasts = 0;   // of them: by which a switch folds
  uint64_t level_calls = 0;  // of the vendor's library
  uint64_t host_functions = 0;
  uint64_t copied_bytes = 0, crossing_bytes = 0;  // of copies; of those that cross
  uint64_t folded_bytes = 0, fetched_bytes = 0;   // of kernels' sources; of those on other devices
  uint64_t shared_bytes = 0;                      // that switches fold and store to all
  uint64_t pushed_bytes = 0;                      // by kernels, to all peers, as messages have them
  uint32_t most_ctas = 0;                         // of a kernel: thread blocks
  uint32_t streams = 1;                           // that run beside each other
};

/// By one of these a call is put into a stream: by the walk of its plan, or by an engine that runs
/// it as a whole: one kernel that waits for the peers' kernels (DeviceRank::fuses()), or a library
/// of the vendor's (DeviceRank::vendor()).
enum class CallEngine : uint8_t { kWalk, kKernel, kVendor };
inline constexpr size_t kCallEngines = 3;

/// How the ring of a DeviceRank is cut, for plans: equal on all ranks.
struct RingShape {
  uint64_t region_bytes = 0;
  uint64_t lane_regions = 0;   // that each lane has, one behind the other
  uint64_t scratch_bytes = 0;  // of all lanes together
};

/// One kernel needs this to run a plan: so many places of so many bytes in a mailbox.
struct FusedNeed {
  uint32_t places = 0;
  uint64_t place_bytes = 0;
};

/// Of a buffer with a part for each rank, in bytes.
struct BufferPart {
  uint64_t offset = 0, bytes = 0;
};

/// A call for a stream. `plan` need live only as long as the call of enqueue().
struct StreamedCall {
  StreamPlace where;
  const plan::Plan* plan = nullptr;  // null: by an engine that needs none
  Call call;
  DescribedCall described;
  trace::Label label;  // for the flight recorder
  /// Of a scaled sum: what this rank brings is multiplied where it is read. Its memory, if it has
  /// some, is what the stream can read.
  std::optional<types::Scalar> factor{};
  /// Of a call without a plan whose counts all ranks know: the parts of its larger buffer, by rank.
  std::vector<BufferPart> parts{};
  /// Where the peers read of this rank, and it of them, without staging. That memory stays as long
  /// as the stream may read there.
  PeerBuffers inputs{}, outputs{};
  /// So many bytes of `send` go to `recv` before the plan begins; then that is its input, too.
  uint64_t first_copied = 0;
  bool engines_alone = false;              // as DeviceRankOptions's, of this call
  uint32_t least_ctas = 0, most_ctas = 0;  // of its kernels; 0: as DeviceRankOptions says
  CallEngine engine = CallEngine::kWalk;   // that the rank has, and that the plan fits
  BounceBuffer bounce{};                   // of a plan with messages between hosts
  /// Called once, by any thread, when the stream is past it, or will never be (an error).
  std::function<void(const Status&)> over;
};

/// How transfers within a host use registered memory, as far as both of their ends know. Empty: no
/// rank has registered any, or all of them are staged in any case.
struct RegisteredTransfers {
  /// By transfer: not 0 where a kernel of the receiver looks where the sender's buffer lies, which
  /// both ends know. Equal on ranks that have made and ended the same registrations.
  std::vector<uint32_t> marks;
  /// By transfer: where the peer reaches what is sent to it; 0: it is staged.
  std::vector<uint64_t> places;
  std::shared_ptr<const void> kept;  // all that the peers may tell this rank to read
  static constexpr uint32_t kMostMark = (1u << 11) - 1;
};

/// Transfers for streams: those of a group, which progress together, or the shares of a
/// v-collective.
struct StreamedTransfers {
  /// All streams of the group: the transfers come behind what any of them holds, and what is put
  /// into any of them later comes behind the transfers. Not empty.
  std::vector<StreamPlace> where;
  std::vector<Transfer> transfers;          // with ranks of this host
  std::vector<Transfer> far{};              // with others; peers have their numbers, too
  BounceOfPairs bounce{};                   // of those
  RegisteredTransfers registered{};         // of the near ones
  Call call;                                // without buffers
  bool engines_alone = false;               // as DeviceRankOptions's, of this call
  std::optional<DescribedCall> described;   // of a v-collective, which all ranks call
  trace::Label label;                       // for the flight recorder
  std::function<void(const Status&)> over;  // as a StreamedCall's
};

/// The near ones first.
inline std::vector<Transfer> all_of(const StreamedTransfers& call) {
  std::vector<Transfer> all = call.transfers;
  all.insert(all.end(), call.far.begin(), call.far.end());
  return all;
}

/// A rank whose group talks from device to device: every rank has a ring, in its device's memory if
/// all peers' devices reach it and in pinned host memory otherwise, all have mapped all rings, and
/// their streams wait for each other's counters.
///
/// Threads: one at a time, the caller of the rank's calls. Lifetime: the destructor waits until the
/// rank's streams are past all calls, and lets them go on first if the communicator has failed.
class DeviceRank {
 public:
  virtual ~DeviceRank() = default;
  /// Puts a call into the stream and returns. On whatever streams calls are, they must run in the
  /// order in which they are put here (CallOrder). An error of calls that differ, or of the driver,
  /// fails the communicator; one of the stream (it is captured) leaves it as it was.
  virtual Status enqueue(StreamedCall call) = 0;
  /// A bounce buffer for such a call, whose plan has messages between hosts: leave() puts the call
  /// into the stream, and fails as enqueue() does. `arrived` not empty: the stream is captured, and
  /// that is called as in Device::cross_captured(). Ends before this.
  virtual Result<std::shared_ptr<NetworkCrossing>> cross(StreamedCall call,
                                                         std::shared_ptr<const NetworkPlan> plan,
                                                         std::function<void()> arrived) = 0;
  /// The same for transfers, of which `pairs` are with ranks of other hosts.
  virtual Result<std::shared_ptr<NetworkCrossing>> cross(StreamedTransfers call,
                                                         std::shared_ptr<const BouncePairs> pairs,
                                                         std::function<void()> arrived) = 0;
  /// A rank that the oldest call that is not over waits for, if it waits for one of this host.
  virtual std::optional<int> find_late() = 0;
  /// The same. Those with this rank itself are in pairs of equal size (check_own_transfers).
  virtual Status enqueue(StreamedTransfers call) = 0;
  /// A call of all ranks in a stream that this rank's options send through the host. It takes its
  /// place among the calls that ranks compare: a peer that puts one there instead learns of it. An
  /// error has failed the communicator.
  virtual Status declare(uint32_t signature, const DescribedCall& described) = 0;
  /// The same of sends and receives, and their two ends.
  virtual Status declare(std::span<const Transfer> transfers) = 0;
  /// Collective. Lets the peers read a range of this rank's device memory, of the same size on all
  /// ranks. kUnsupported, on all of them: some rank's
  /// memory is none that others can be given; the message says whose, and why. Another error has
  /// failed the communicator.
  virtual Result<std::shared_ptr<const PeerMemory>> share(std::byte* memory, uint64_t bytes) = 0;
  /// Collective. Gives the memory of the rings back and keeps its addresses, so that graphs name
  /// the same when it is there again: until resume() nothing of this rank may run. `over`: OK, or
  /// why calls of this rank may still run; then no rank does it, and all return an error. Other
  /// errors have failed the communicator. The vendor's library gives its memory back, too, where it
  /// can on all ranks: it may take `patience_ns` for that.
  virtual Status suspend(const Status& over, uint64_t patience_ns) = 0;
  /// Collective, behind suspend(). kSystemError, on all ranks: some rank found no memory; all are
  /// suspended as before. Another error has failed the communicator.
  virtual Status resume(uint64_t patience_ns) = 0;
  /// Device memory that suspend() gives back, of this rank's.
  virtual uint64_t device_bytes() const = 0;
  /// How much that call would put into a stream, or, `captured`, into a graph; `scales`: as a
  /// scaled sum. `first_copied` as in StreamedCall.
  virtual DeviceCounts count(const plan::Plan& plan, bool scales, uint64_t first_copied,
                             bool captured) = 0;
  /// OK, or why its streams only copy. Equal on all ranks.
  virtual const Status& folds() const = 0;
  /// Of one move.
  virtual uint32_t most_sources() const = 0;
  virtual DeviceCounts count(const StreamedTransfers& call, const BouncePairs* pairs) = 0;
  /// OK, or why moves that fold a place which all ranks share (plan/shared_places.h) are not work
  /// of the switch between the devices. Equal on all ranks.
  virtual const Status& shares() const = 0;
  /// Whether a switch folds so, where shares() is OK.
  virtual bool shares(types::DataType type, types::ReduceOp op) const = 0;
  /// OK, or why no call is one kernel that waits for the peers' kernels. Equal on all ranks.
  virtual const Status& fuses() const = 0;
  /// The need of one kernel that runs the plan, on that rank and with its buffers; kUnsupported: it
  /// is no such plan, and why.
  virtual Result<FusedNeed> need_fused(const plan::Plan& plan, int rank,
                                       const Call& buffers) const = 0;
  /// Of the room that the kernels of two ranks have for each other's messages.
  virtual uint64_t mailbox_bytes() const = 0;
  /// How much the call would put into a stream, or into a graph, as one kernel.
  virtual DeviceCounts count_fused(const plan::Plan& plan) const = 0;
  /// The vendor's library as an engine of the group, or why it is none. Lives as long as this.
  virtual VendorLibrary& vendor() = 0;
  /// Whether some call is not over. Finds out whether a peer has given up, and lets the streams go
  /// on where that is due. Threads: any.
  virtual bool look() = 0;
  /// Which rings lie in pinned host memory, and why, for people; "": none. Equal on all ranks.
  virtual const std::string& rings() const = 0;
  virtual RingShape ring_shape() const = 0;
  /// So much of a transfer to a peer can be on its way at once; 0: too little for any transfer.
  virtual uint64_t pair_bytes() const = 0;
  /// A longer transfer goes in several pieces.
  virtual uint64_t piece_bytes() const = 0;
};

/// The ranks of a host as one of them shares the memory of devices with the others.
struct DeviceGroup {
  int rank = 0;
  std::vector<transport::Mapped*> links;  // by rank; null: its own
  std::vector<std::string> devices;       // by rank: Device::identity_of; "": it has none
  StreamPlace where;                      // the rank's device
  bool peer_access = true;                // false: this rank's memory is not for other devices
  /// Every rank gives a text, and gets all of them.
  std::function<Result<std::vector<std::string>>(const std::string&)> exchange;
  std::function<std::string(int)> name_of;  // a rank, in messages
};

/// A rank as open() needs it. The functions may be called from any thread, but for `exchange`.
/// Ranks have the numbers of this host: its own ones come first, in `arenas`, then those of other
/// hosts, which only causes of failures name.
struct DeviceRankOptions : DeviceGroup {
  size_t ranks = 0;               // of all hosts
  bool needs_ring = false;        // also of a rank that is alone on its host
  std::vector<ArenaView> arenas;  // by rank, its own included
  uint64_t ring_bytes = 0;
  uint64_t fused_bytes = 0;  // of mailboxes for kernels that wait; 0: there are no such kernels
  // Whether rings are to lie behind a multicast address, where the devices can (shares()).
  MulticastWish multicast = MulticastWish::kOff;
  uint32_t least_ctas = 1, most_ctas = 0;  // of a kernel; 0: the engine's own
  // Copies within a device, too, are for copy engines, which are slower at that.
  bool engines_alone = false;
  VendorWish vendor;
  std::function<Cause()> cause;                    // of its failure
  std::function<Status()> failure;                 // of the communicator
  std::function<void(Status, Cause)> fail;         // the same from now on
  std::function<void(const std::string&)> report;  // to the log: a stream that waits for long
  std::function<void(const std::string&)> inform;  // the log's reader of what is as it should be
  // A graph has run one of its calls behind its end. It outlives the rank.
  std::function<void()> ran_late;
  uint64_t slow_ns = kNoDeadline;       // after which `report` is told
  trace::Recorder* recorder = nullptr;  // of its calls on devices alone; may be null
};

}  // namespace tutti::exec
