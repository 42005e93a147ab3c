// A vendor's devices as the layers above need them: to tell device memory from the host's, to let a
// stream of the device and the host wait for each other (staging.h), and to open ranks whose group
// talks from device to device (stream_rank.h). Engines implement it (src/engines/<vendor>); nothing
// here is any vendor's.
//
// Threads: any. Errors: kUnsupported, kInvalidUsage for what a stream cannot hold, kSystemError
// where memory runs out. Nothing here waits for a device.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/exec/device_memory.h"
#include "src/exec/staging.h"
#include "src/exec/stream_rank.h"

namespace tutti::exec {

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
  virtual Result<std::shared_ptr<HostStaging>> cross(const StreamPlace& where,
                                                     const DevicePieces& input,
                                                     const DevicePieces& output) = 0;
  /// The same of a captured stream. `arrived` is called whenever the stream, in a run of the graph,
  /// has come to the first point; by a thread that may neither use the device nor wait. The
  /// host staging must be kept with the graph.
  virtual Result<std::shared_ptr<HostStaging>> cross_captured(const StreamPlace& where,
                                                              const DevicePieces& input,
                                                              const DevicePieces& output,
                                                              std::function<void()> arrived) = 0;
  /// Lives at least as long as the graph that is captured in the stream, and all that can run it;
  /// its last owner lets it go in a thread that may use the device.
  virtual Status keep(const StreamPlace& where, std::shared_ptr<const void> kept) = 0;
  virtual Result<std::shared_ptr<CallOrder>> make_order() = 0;
  /// Gives host memory back that is pinned for calls, and that none uses now.
  virtual void trim(const StreamPlace& where) const = 0;
  /// Collective among ranks of one host. kUnsupported, on all of them: some rank cannot; the
  /// message says which, and why. Another error has failed the communicator.
  virtual Result<std::unique_ptr<DeviceRank>> open(DeviceRankOptions options) = 0;
  /// Collective among ranks of one host, with a device or without: each may bring a range of its
  /// device's memory, of any size, or none (null). kUnsupported, on all of them: some rank's memory
  /// is none that others can be given, or some rank does not reach it; the message says whose, and
  /// why. Another error is one of the exchange.
  virtual Result<std::shared_ptr<const PeerMemory>> share(const DeviceGroup& group,
                                                          std::byte* memory, uint64_t bytes) = 0;

  /// At least so many bytes, of undefined contents, on the device that the stream belongs to. Other
  /// processes can be given it.
  virtual Result<std::unique_ptr<DeviceAllocation>> allocate(void* stream, size_t bytes) = 0;
};

}  // namespace tutti::exec
