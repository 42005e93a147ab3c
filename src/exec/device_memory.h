// Memory as the calls of devices see it: where a byte lies, what Tutti has allocated there, and
// what the ranks of a group let each other read.
//
// Threads: any, but where a class says otherwise. Errors: none here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tutti::exec {

/// Pinned memory is the host's, and streams can name it.
enum class MemoryPlace : uint8_t { kHost, kPinned, kDevice };

/// Memory of a device that Tutti allocated. To end it may wait for all work of the device, so where
/// that waits for another rank this thread must not be the one that it needs.
class DeviceAllocation {
 public:
  virtual ~DeviceAllocation() = default;
  virtual std::byte* data() const = 0;
};

/// Memory that the ranks of the group have registered together, as streams of this rank's device
/// reach it. Others reach it until their last owner lets it go, whatever the rank that it belongs
/// to does with it. Threads: any. The last owner may be any thread: it waits for nothing.
class PeerMemory {
 public:
  virtual ~PeerMemory() = default;
  /// By rank, the own one included: where its range begins. Null: it has brought none, or this rank
  /// has no device.
  virtual std::span<std::byte* const> ranges() const = 0;
  /// By rank: where the device of that rank reaches this rank's range; 0: nowhere that is known.
  virtual std::span<const uint64_t> seen_at() const = 0;
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

}  // namespace tutti::exec
