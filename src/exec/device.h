// A vendor's devices as the layers above need them: to tell device memory from the host's, and to
// let a stream of the device and the host wait for each other. Engines implement it
// (src/engines/<vendor>); nothing here is any vendor's.
//
// A stream that is *captured* runs nothing: what is put into it becomes part of a graph, which its
// owner runs as often as wanted. A captured call is put there once and runs with the graph.
//
// A *crossing* is the way of a call whose buffers lie in device memory through the host: the
// stream copies the input into host memory and says so; the host runs the call there; the stream,
// which has been waiting, copies the output back. Nothing of it runs on the device's processors.
//
// Threads: a Device from any; of a Fence one thread asks and releases, another one enqueues.
// Errors: kUnsupported, kInvalidUsage for what the stream cannot hold, kSystemError where memory
// runs out. Nothing here waits for a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"
#include "src/diagnosis/described_call.h"
#include "src/exec/arena_map.h"
#include "src/exec/call_state.h"
#include "src/exec/transfer.h"
#include "src/plan/plan.h"
#include "src/trace/recorder.h"
#include "src/transport/transport.h"
#include "src/types/scalar.h"

namespace tutti::exec {

/// Two points of a device's stream between which the host does a work: the stream comes to the
/// first one, then waits at the second one until it is released.
class Fence {
 public:
  virtual ~Fence() = default;
  /// The stream has come: the work may begin, its input is there.
  virtual bool is_open() const = 0;
  /// The work is done, or it never will be: the stream goes on. Never fails.
  virtual void release() = 0;
  /// After release(): the stream has taken what the work left.
  virtual bool is_over() const = 0;
};

/// A part of a buffer in device memory and its place in the host's copy of the buffer.
struct DevicePiece {
  std::byte* device = nullptr;
  uint64_t offset = 0;  // in the host's copy
  uint64_t bytes = 0;
};

/// All that a call reads, or writes, in device memory. `bytes`: of the host's copy, which may have
/// gaps.
struct DevicePieces {
  std::vector<DevicePiece> pieces;
  uint64_t bytes = 0;
};

class Crossing {
 public:
  virtual ~Crossing() = default;
  /// Of the next time that the stream comes: there is one, but for each run of a captured call a
  /// new one, which is open. A run's releases when it goes. Throws where there is no memory.
  virtual std::shared_ptr<Fence> fence() = 0;
  /// The stream goes on, in a run without a fence.
  virtual void skip() = 0;
  /// The host's copies. They stay until the fence is over; of a captured call, as long as this.
  virtual std::byte* input() const = 0;
  virtual std::byte* output() const = 0;
  /// Puts into the stream: the input's copy, and the first point. All of a group enter before one
  /// leaves, since a stream stops where one leaves.
  virtual Status enter() = 0;
  /// Puts into the stream: the second point, and the copy of the output. After an error of it, or
  /// without it, the stream does not wait.
  virtual Status leave() = 0;
};

/// A stream, and what must be current in a thread that uses it.
struct StreamPlace {
  void* context = nullptr;
  void* stream = nullptr;
  uint64_t capture = 0;   // which one the stream is in; 0: none, what is put there runs
  void* graph = nullptr;  // that the capture makes
};

/// The order of a communicator's calls in streams, captured ones and others, whatever streams and
/// devices they are on, from device to device or through the host: calls run in the order in which
/// they, or the graphs that hold them, were put into streams. No handle of a stream says anything:
/// one stream may get the handle of another one that is gone, and several may have one in common.
/// Threads: one at a time. A captured call's graph keeps it (Device::keep).
class CallOrder {
 public:
  virtual ~CallOrder() = default;
  /// All that is put into the streams from now on is behind all calls so far.
  virtual Status begin(std::span<const StreamPlace> streams) = 0;
  /// A call ends with what the streams hold. A call that comes behind it is behind all of them.
  virtual Status end(std::span<const StreamPlace> streams) = 0;
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
  uint64_t host_functions = 0;
  uint64_t copied_bytes = 0, crossing_bytes = 0;  // of copies; of those that cross
  uint64_t folded_bytes = 0, fetched_bytes = 0;   // of kernels' sources; of those on other devices
  uint32_t most_ctas = 0;                         // of a kernel: thread blocks
  uint32_t streams = 1;                           // that run beside each other
};

/// How the ring of a DeviceRank is cut, for plans: equal on all ranks.
struct RingShape {
  uint64_t region_bytes = 0;
  uint64_t lane_regions = 0;   // that each lane has, one behind the other
  uint64_t scratch_bytes = 0;  // of all lanes together
};

/// Memory that every rank of the group has registered together, as streams of this rank's device
/// reach it. Others read it until their last owner lets it go, whatever the rank that it belongs to
/// does with it. Threads: any. The last owner may be any thread: it waits for nothing.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// By rank, the own one included: where its range begins.
  virtual std::span<std::byte* const> ranges() const = 0;
  /// Whether this rank's range still is what was registered: it may have been freed, and others may
  /// be at its addresses.
  virtual bool is_there() const = 0;
};

/// Where the buffers of all ranks lie that peers read in a call: that of rank r `offset + r *
/// stride` bytes behind the beginning of its range.
struct PeerBuffers {
  std::shared_ptr<const PeerMemory> memory;  // null: no plan names them
  uint64_t offset = 0;
  uint64_t stride = 0;
};

/// A call for a stream. `plan` need live only as long as the call of enqueue().
struct StreamedCall {
  StreamPlace where;
  const plan::Plan* plan = nullptr;
  Call call;
  DescribedCall described;
  trace::Label label;  // for the flight recorder
  /// Of a scaled sum: what this rank brings is multiplied where it is read. Its memory, if it has
  /// some, is what the stream can read.
  std::optional<types::Scalar> factor{};
  /// Where the peers read of this rank, and it of them, without staging. That memory stays as long
  /// as the stream may read there.
  PeerBuffers inputs{}, outputs{};
  /// So many bytes of `send` go to `recv` before the plan begins; then that is its input, too.
  uint64_t first_copied = 0;
  bool engines_alone = false;  // as DeviceRankOptions's, of this call
  /// Called once, by any thread, when the stream is past it, or will never be (an error).
  std::function<void(const Status&)> over;
};

/// Transfers for streams: those of a group, which progress together, or the shares of a
/// v-collective. `transfers` need live only as long as the call of enqueue().
struct StreamedTransfers {
  /// All streams of the group: the transfers come behind what any of them holds, and what is put
  /// into any of them later comes behind the transfers. Not empty.
  std::vector<StreamPlace> where;
  std::span<const Transfer> transfers;
  Call call;                                // without buffers
  bool engines_alone = false;               // as DeviceRankOptions's, of this call
  std::optional<DescribedCall> described;   // of a v-collective, which all ranks call
  trace::Label label;                       // for the flight recorder
  std::function<void(const Status&)> over;  // as a StreamedCall's
};

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
  /// How much that call would put into a stream, or, `captured`, into a graph; `scales`: as a
  /// scaled sum. `first_copied` as in StreamedCall.
  virtual DeviceCounts count(const plan::Plan& plan, bool scales, uint64_t first_copied,
                             bool captured) = 0;
  /// OK, or why its streams only copy. Equal on all ranks.
  virtual const Status& folds() const = 0;
  /// Of one move.
  virtual uint32_t most_sources() const = 0;
  virtual DeviceCounts count(std::span<const Transfer> transfers) = 0;
  /// Whether some call is not over. Finds out whether a peer has given up, and lets the streams go
  /// on where that is due. Threads: any.
  virtual bool look() = 0;
  /// Which rings lie in pinned host memory, and why, for people; "": none. Equal on all ranks.
  virtual const std::string& rings() const = 0;
  virtual RingShape ring_shape() const = 0;
  /// So much of a transfer to a peer can be on its way at once; 0: too little for any transfer.
  virtual uint64_t pair_bytes() const = 0;
};

/// A rank as open() needs it. The functions may be called from any thread, but for `exchange`.
struct DeviceRankOptions {
  int rank = 0;
  std::vector<ArenaView> arenas;          // by rank, its own included
  std::vector<transport::Mapped*> links;  // by rank; null: its own
  std::vector<std::string> devices;       // by rank: Device::identity_of
  StreamPlace where;                      // the rank's device
  uint64_t ring_bytes = 0;
  bool peer_access = true;  // false: this rank's ring is not for other devices' copies
  uint32_t least_ctas = 1, most_ctas = 0;  // of a kernel; 0: the engine's own
  // Copies within a device, too, are for copy engines, which are slower at that.
  bool engines_alone = false;
  /// Every rank gives a text, and gets all of them.
  std::function<Result<std::vector<std::string>>(const std::string&)> exchange;
  std::function<Cause()> cause;                    // of its failure
  std::function<Status()> failure;                 // of the communicator
  std::function<void(Status, Cause)> fail;         // the same from now on
  std::function<std::string(int)> name_of;         // a rank, in messages
  std::function<void(const std::string&)> report;  // to the log: a stream that waits for long
  uint64_t slow_ns = kNoDeadline;                  // that is how long
  trace::Recorder* recorder = nullptr;             // of its calls on devices alone; may be null
};

/// Pinned memory is the host's, and streams can name it.
enum class MemoryPlace : uint8_t { kHost, kPinned, kDevice };

/// Memory of a device that Tutti allocated. To end it may wait for all work of the device, so where
/// that waits for another rank this thread must not be the one that it needs.
class DeviceAllocation {
 public:
  virtual ~DeviceAllocation() = default;
  virtual std::byte* data() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  /// Whether this process can have memory of the device's. As cheap as a load.
  virtual bool is_present() const = 0;
  /// Where the byte lies.
  virtual Result<MemoryPlace> place_of(const void* address) const = 0;
  /// A stream as the vendor has it. Null may be one, and there may be other handles that mean a
  /// stream of every device: that is `home`'s if it has a context, else the calling thread's
  /// current device's. kInvalidUsage if nothing can be put there now, because its capture has
  /// failed.
  virtual Result<StreamPlace> place_of_stream(void* stream, const StreamPlace& home) const = 0;
  /// The calling thread's current device, and no stream; without a context if there is none.
  virtual StreamPlace current() const = 0;
  /// The same, and where the thread has none, the one device that this process uses already. No
  /// device is begun to be used.
  virtual StreamPlace current_or_used() const = 0;
  /// How many devices this process sees; 0 without a driver that works.
  virtual int count() const = 0;
  /// That one, from 0, and no stream. It stays usable for the process's life.
  virtual Result<StreamPlace> place_of_device(int number) const = 0;
  /// Equal in all processes that see the place's device; "" if there is none.
  virtual std::string identity_of(const StreamPlace& place) const = 0;
  /// Where it is on the host's bus, as topologies name it ("0000:18:00.0"); "": nobody knows.
  virtual std::string bus_address_of(const StreamPlace& place) const = 0;
  /// Makes the place's device current in the calling thread for as long as this is kept.
  virtual std::shared_ptr<const void> enter(const StreamPlace& place) const = 0;
  virtual Result<std::shared_ptr<Crossing>> cross(const StreamPlace& where,
                                                  const DevicePieces& input,
                                                  const DevicePieces& output) = 0;
  /// The same of a captured stream. `arrived` is called whenever the stream, in a run of the graph,
  /// has come to the first point; by a thread that may neither use the device nor wait. The
  /// crossing must be kept with the graph.
  virtual Result<std::shared_ptr<Crossing>> cross_captured(const StreamPlace& where,
                                                           const DevicePieces& input,
                                                           const DevicePieces& output,
                                                           std::function<void()> arrived) = 0;
  /// Lives at least as long as the graph that is captured in the stream, and all that can run it;
  /// its last owner lets it go in a thread that may use the device.
  virtual Status keep(const StreamPlace& where, std::shared_ptr<const void> kept) = 0;
  virtual Result<std::shared_ptr<CallOrder>> make_order() = 0;
  /// Collective among ranks of one host. kUnsupported, on all of them: some rank cannot; the
  /// message says which, and why. Another error has failed the communicator.
  virtual Result<std::unique_ptr<DeviceRank>> open(DeviceRankOptions options) = 0;

  /// At least so many bytes, of undefined contents, on the device that the stream belongs to. Other
  /// processes can be given it.
  virtual Result<std::unique_ptr<DeviceAllocation>> allocate(void* stream, size_t bytes) = 0;
};

}  // namespace tutti::exec
