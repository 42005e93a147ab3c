// Activations on a disk between the forward and the backward pass, so that memory holds fewer of
// them: what is saved is written while the forward pass goes on and read ahead of the backward
// pass (SSDTrain, arXiv:2408.10013).
//
// A storage that is packed several times is written once. A tensor that the backward pass asks for
// while it is still being written is handed back from memory, without a read. How many of a step's
// storages go to the disk follows from the step before: as many, from the first on, as its rate
// hides behind computing; the last ones stay in memory, as they are needed first.
//
// Exact: names by storage, one write each, forwarding, reading ahead in reverse order, an amount
// that adapts. Ours: the simulation that chooses the amount (the authors' policy is not public),
// the budget, which is a bound and not an aim, and the checksum behind every read.
//
// Bytes lie in one file without a name in `folder`, which is gone with the process whatever ends
// it; nobody can remove it or lose the right to it in the middle of a step. Reads and writes go
// through io_uring, or through threads where the kernel refuses that (io()). Pages are dropped
// from the system's cache when they are on the disk.
//
// Units:    bytes, bytes a second.
// Owns:     packed memory through `hold`, which it lets go in a later call of the caller's thread;
//           the file.
// Threads:  one thread at a time calls it. It has threads of its own.
// Errors:   throws Error. kInfeasible: the disk failed (the sentence has the system's words), bytes
//           came back changed, or a storage is larger than the budget. After a write that failed
//           its bytes are still in memory and can be unpacked; every later pack() throws.
// Ordering: a step ends when every handle was dropped; then the next step's amount is planned.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tutti/runtime/error.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

/// The costs of one storage in a step: the forward work until it is packed, the backward work
/// behind its use.
struct OffloadItem {
  Bytes bytes{0};
  Nanoseconds forward{0};
  Nanoseconds backward{0};
};

/// Storages that are read ahead of the one that the backward pass asks for, at most.
inline constexpr int64_t kReadAhead = 2;

struct OffloadRates {
  double write = 0;  // bytes a second
  double read = 0;
};

/// Memory that begins or ends to be held, at a time of the step.
struct OffloadEvent {
  Nanoseconds time{0};
  Bytes change{0};
};

struct OffloadPlan {
  int offloaded = 0;       // items 0 .. offloaded-1 go to the disk
  Nanoseconds step{0};     // predicted
  Nanoseconds without{0};  // the same without a disk, and with memory for all
  Bytes peak{0};           // of what is held at a time
  Bytes written{0};        // without items that are handed back while they wait or are written
  std::vector<OffloadEvent> events;  // by time; their running sum has the peak
};
/// The most items that cost no more than `slack` of the step; where the budget allows none, the
/// fastest way that fits it. Throws kInfeasible where nothing fits.
TUTTI_RUNTIME_API OffloadPlan plan_offload(std::span<const OffloadItem> items,
                                           const OffloadRates& rates, Bytes budget,
                                           double slack = 0.02);
/// The step with so many items on the disk.
TUTTI_RUNTIME_API OffloadPlan simulate_offload(std::span<const OffloadItem> items,
                                               const OffloadRates& rates, Bytes budget,
                                               int offloaded);

struct OffloadSpec {
  std::string folder;    // on the disk
  Bytes budget{0};       // of memory that is kept, written or read ahead, at any time
  OffloadRates limit;    // a share of the disk, for several processes on one; 0: all of it
  int threads = 2;       // where io_uring is not to be had
  bool io_uring = true;  // false: threads in any case
  double slack = 0.02;   // of a step's time, that its writes and reads may cost
  Nanoseconds silence{60'000'000'000};  // a disk that finishes nothing for so long has failed
};

/// Memory of the caller.
struct OffloadMemory {
  const void* data = nullptr;
  Bytes bytes{0};
  std::shared_ptr<const void> hold;  // keeps it alive
  std::function<int64_t()> version;  // rises when somebody writes to it; may be empty
};

struct OffloadCounters {
  int64_t packed = 0;     // calls of pack()
  int64_t writes = 0;     // of storages, that were begun
  int64_t reads = 0;      // of storages, from the disk
  int64_t forwarded = 0;  // unpacked while they were waiting or being written
  int64_t kept = 0;       // storages that stayed in memory by the plan
  Bytes written{0};
  Bytes read{0};
  Bytes held{0};     // now
  Bytes peak{0};     // the most ever held
  int planned = -1;  // storages of this step that go to the disk; -1: all, no step has ended
};

class TUTTI_RUNTIME_API OffloadCache {
 public:
  explicit OffloadCache(const OffloadSpec& spec);
  ~OffloadCache();
  OffloadCache(const OffloadCache&) = delete;
  OffloadCache& operator=(const OffloadCache&) = delete;

  /// `storage` is a number that the caller gives to this memory alone as long as handles of it
  /// live. Packed again in the same version it is one storage with two handles. Waits for the disk
  /// while the budget has no room.
  int64_t pack(int64_t storage, const OffloadMemory& memory);

  /// The bytes, from memory or from the disk: `data` is valid as long as `hold`. Refuses memory
  /// whose version has changed since it was packed, and handles that were dropped.
  OffloadMemory unpack(int64_t handle);

  /// The handle is not needed any more. Its memory is held until a write of it that has begun has
  /// ended.
  void drop(int64_t handle);

  OffloadCounters counters();
  /// "io_uring" or "threads".
  const char* io() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti::runtime
