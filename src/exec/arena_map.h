// Where things lie in a rank's arena. Written by its rank, read by the ranks of its domain.
//
//   Counter  one line per lane: the progress counter, and beside lane 0's the call the rank is in
//   Guard    whether the rank is touching peers' buffers, and whether it may
//   reads    what it costs this rank to read what others wrote to their rings
//   recent   the signatures of the last calls, for peers that are behind
//   log      what the last calls were, for messages about calls that differ
//   cells    flag and payload of small messages: a ring of kCellRegions regions
//   rings    one staging ring per lane, kRingRegions regions each
//   pairs    one channel per peer for send/recv (pair_channel.h)
//   device   the same for calls that streams of devices run: counters, signatures, log, transfers
//
// Ordering: payload is written before the flag or counter that announces it (release), and read
// after it (acquire). Flags and counters only rise, or are exact values that never repeat within a
// lap.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/diagnosis/contact.h"
#include "src/diagnosis/described_call.h"
#include "src/exec/transfer_log.h"
#include "src/plan/plan.h"

namespace tutti::exec {

inline constexpr size_t kLineBytes =
    128;  // two lines: the neighbour is prefetched with a polled one
inline constexpr uint32_t kLanes = plan::kMaxLanes;
using diagnosis::CallLog;
using diagnosis::DescribedCall;
using diagnosis::kRecentCalls;
inline constexpr uint32_t kCellsPerRegion = 64;
inline constexpr uint32_t kCellRegions = 4;
inline constexpr uint32_t kRingRegions = 4;
// Whose peer makes another call finds it among them, however far this rank could run ahead: by
// tiny calls alone, and by as many again through the rings.
static_assert(kRecentCalls >= 4 * kCellRegions * kCellsPerRegion * plan::kTinyParts);

/// Whether a rank has mapped the arenas of its domain, and may copy from and to the other memory of
/// all ranks there.
enum class Joined : uint32_t { kNotYet = 0, kYes, kAndCopies };

/// One lane's counter. `call` (lane 0 only) is call number << 32 | signature, written on entry;
/// `failed` is a Loss's word once this rank has given up on the communicator. A rank that waits for
/// long writes whom it waits for (call number << 32 | rank), and when it was last awake to do so.
/// Ranks of the same host write `lost`, a Loss's word, where the group has several, once they know
/// why it cannot go on (diagnosis::PeerWatch). `staged` is the StagingMark of the last timed move
/// into the lane's ring.
struct alignas(kLineBytes) Counter {
  std::atomic<uint64_t> progress;
  std::atomic<uint64_t> call;
  std::atomic<uint64_t> failed;
  std::atomic<Joined> joined;
  std::atomic<uint64_t> waiting;
  std::atomic<uint64_t> awake_ns;
  std::atomic<uint64_t> lost;
  std::atomic<uint64_t> staged;
};
static_assert(sizeof(Counter) == kLineBytes);

/// Keeps buffers that peers touch alive as long as they do (CallState::close_buffers).
struct alignas(kLineBytes) Guard {
  std::atomic<uint32_t> inside;  // not 0: this rank may be touching peers' buffers
  // By a peer that left a call with an error: (rank + 1) << 32 | call number. From that call on,
  // this rank touches no buffers any more. 0: none did.
  std::atomic<uint64_t> closed;
};
static_assert(sizeof(Guard) == kLineBytes);

/// By class of sizes, the StoreCosts of reading (staging_stores.h).
inline constexpr uint32_t kStagingClasses = 10;
struct alignas(kLineBytes) StagingReads {
  std::array<std::atomic<uint64_t>, kStagingClasses> costs;
};
static_assert(sizeof(StagingReads) == kLineBytes);

using Flag = std::atomic<uint64_t>;

/// The streams of a rank's device, and the host for them, tell the ranks of its host by this. Whole
/// pages, which are made known to the device's driver: streams write `progress` and `finished`.
/// Behind it lies a DevicePair for each rank.
/// Of plans for devices, which do long calls in turn (plan::Tuning::turns).
inline constexpr uint32_t kDeviceLanes = 2;

struct DevicePage {
  struct alignas(kLineBytes) Word {
    std::atomic<uint64_t> value;
  };
  std::array<Word, kDeviceLanes> progress;  // the counter of each lane, as Counter's
  Word finished;  // the number of the last call that this rank's stream is past
  Word call;      // number << 32 | signature of the last call that was put into a stream
  Word failed;    // a Loss's word, once this rank has given up
  Word vendor;    // how the making of its part of a VendorLibrary went; 0: it is under way
  // By its watchdog, as streams::PeerWait says.
  Word waits;
  Word looked;

  uint64_t progress_of(uint32_t lane) const {
    return progress[lane].value.load(std::memory_order_acquire);
  }
  void set_progress(uint32_t lane, uint64_t value) {
    progress[lane].value.store(value, std::memory_order_release);
  }
};

/// How far a rank's streams have come with a peer. They count the pieces of all transfers.
struct DevicePair {
  DevicePage::Word sent;   // pieces for the peer, which lie in this rank's slots
  DevicePage::Word taken;  // pieces of the peer's, out of its slots
};

struct ArenaLayout {
  explicit constexpr ArenaLayout(uint64_t ring_bytes, uint64_t pair_bytes, int ranks)
      : ring_bytes(ring_bytes), pair_bytes(pair_bytes), ranks(ranks) {}

  uint64_t ring_bytes;
  uint64_t pair_bytes;
  int ranks;

  static constexpr uint64_t kPage = 4096;
  static constexpr uint64_t kTransferLogBytes =
      TransferLog::kEntries * sizeof(TransferLog::CalledEntry);
  static constexpr uint64_t page(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

  constexpr uint64_t counters() const { return 0; }
  constexpr uint64_t guard() const { return kLanes * sizeof(Counter); }
  constexpr uint64_t reads() const { return guard() + sizeof(Guard); }
  constexpr uint64_t recent() const { return page(reads() + sizeof(StagingReads)); }
  constexpr uint64_t log() const { return recent() + page(kRecentCalls * sizeof(uint64_t)); }
  constexpr uint64_t cells() const { return log() + page(CallLog::kRuns * sizeof(CallLog::Run)); }
  constexpr uint64_t rings() const {
    return cells() + page(uint64_t{kCellRegions} * kCellsPerRegion * plan::kCellStride);
  }
  constexpr uint64_t pairs() const { return rings() + kLanes * ring_bytes; }
  constexpr uint64_t device() const {
    return page(pairs() + static_cast<uint64_t>(ranks) * pair_bytes);
  }
  /// Known to the driver of the device.
  constexpr uint64_t device_bytes() const {
    return page(sizeof(DevicePage) + static_cast<uint64_t>(ranks) * sizeof(DevicePair));
  }
  constexpr uint64_t device_recent() const { return device() + device_bytes(); }
  constexpr uint64_t device_log() const {
    return device_recent() + page(kRecentCalls * sizeof(uint64_t));
  }
  constexpr uint64_t device_transfers() const {
    return device_log() + page(CallLog::kRuns * sizeof(CallLog::Run));
  }
  constexpr uint64_t bytes() const {
    return device_transfers() + page(2 * static_cast<uint64_t>(ranks) * kTransferLogBytes);
  }
  constexpr uint64_t region_bytes() const { return ring_bytes / kRingRegions; }
};

/// One rank's arena seen through the layout.
class ArenaView {
 public:
  ArenaView() = default;
  ArenaView(std::byte* base, const ArenaLayout& layout)
      : base_(base),
        counters_(reinterpret_cast<Counter*>(base + layout.counters())),
        guard_(reinterpret_cast<Guard*>(base + layout.guard())),
        reads_(reinterpret_cast<StagingReads*>(base + layout.reads())),
        recent_(reinterpret_cast<Flag*>(base + layout.recent())),
        log_(reinterpret_cast<CallLog::Run*>(base + layout.log())),
        cells_(base + layout.cells()),
        rings_(base + layout.rings()),
        pairs_(base + layout.pairs()),
        device_(base + layout.device()),
        device_recent_(reinterpret_cast<Flag*>(base + layout.device_recent())),
        device_log_(reinterpret_cast<CallLog::Run*>(base + layout.device_log())),
        device_transfers_(
            reinterpret_cast<TransferLog::CalledEntry*>(base + layout.device_transfers())),
        device_bytes_(layout.device_bytes()) {}

  bool valid() const { return base_ != nullptr; }
  Counter& counter(uint32_t lane) const { return counters_[lane]; }
  Guard& guard() const { return *guard_; }
  StagingReads& reads() const { return *reads_; }
  Flag& recent(uint32_t call) const { return recent_[call % kRecentCalls]; }
  CallLog::Run* log() const { return log_; }
  /// The words that the diagnosis of slow and failed calls reads and writes.
  diagnosis::RankWords words() const {
    Counter& first = counters_[0];
    return {&first.call, &first.failed, &first.waiting, &first.awake_ns, &first.lost,
            recent_,     log_};
  }
  std::byte* cells() const { return cells_; }
  std::byte* rings() const { return rings_; }
  std::byte* pairs() const { return pairs_; }
  DevicePage& device() const { return *reinterpret_cast<DevicePage*>(device_); }
  Flag& device_recent(uint32_t call) const { return device_recent_[call % kRecentCalls]; }
  /// Of the page and the pairs behind it.
  uint64_t device_bytes() const { return device_bytes_; }
  static constexpr uint64_t device_pair_offset(size_t peer) {
    return sizeof(DevicePage) + peer * sizeof(DevicePair);
  }
  DevicePair& device_pair(size_t peer) const {
    return *reinterpret_cast<DevicePair*>(device_ + device_pair_offset(peer));
  }
  CallLog::Run* device_log() const { return device_log_; }
  /// This rank's sends to the peer, or receives from it.
  TransferLog::CalledEntry* device_transfers(size_t peer, bool sends) const {
    return device_transfers_ + (2 * peer + (sends ? 1 : 0)) * TransferLog::kEntries;
  }

 private:
  std::byte* base_ = nullptr;
  Counter* counters_ = nullptr;
  Guard* guard_ = nullptr;
  StagingReads* reads_ = nullptr;
  Flag* recent_ = nullptr;
  CallLog::Run* log_ = nullptr;
  std::byte* cells_ = nullptr;
  std::byte* rings_ = nullptr;
  std::byte* pairs_ = nullptr;
  std::byte* device_ = nullptr;
  Flag* device_recent_ = nullptr;
  CallLog::Run* device_log_ = nullptr;
  TransferLog::CalledEntry* device_transfers_ = nullptr;
  uint64_t device_bytes_ = 0;
};

}  // namespace tutti::exec
