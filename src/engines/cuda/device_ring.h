// The memory by which the ranks of a host reach each other from device to device: of every rank a
// ring for collectives and behind it slots for its peers, for eager calls as long as the ring and
// for calls in graphs, mapped by all; and the counters in the arenas, made known to the driver.
//
// A ring lies in its rank's device memory if the devices of all peers reach it, and in pinned host
// memory otherwise. The driver says whether they do where it knows both devices; else it is seen
// when they try: a rank whose memory some peer could not import offers pinned memory next. A
// rank alone has none.
//
// Owns: this rank's ring, its mappings of the others, the registrations. Threads: one. Lifetime: it
// ends when the rank's streams are past all that uses it; the arenas live longer. The peers'
// mappings of this rank's ring stay theirs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/alias_mapping.h"
#include "src/drivers/cuda/device.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/fused_program.h"
#include "src/engines/cuda/multicast_ring.h"
#include "src/engines/cuda/pair_streams.h"
#include "src/engines/cuda/shared_ring.h"
#include "src/engines/cuda/stream_machine.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

class DeviceRing {
 public:
  /// Collective (exec::Device::open). `device` is the rank's; its context is current.
  static Result<std::unique_ptr<DeviceRing>> open(const drivers::cuda::Cuda& cuda,
                                                  drivers::cuda::CUdevice device,
                                                  const exec::DeviceRankOptions& options);

  /// Unmaps and frees the rings, and makes the driver forget the counters, which no stream uses any
  /// more. A context of the device is current.
  void end();

  /// Collective among the ranks whose rings these are; no stream uses any. Gives the memory of all
  /// rings back, and keeps its addresses, which nothing may touch until restore(). When it
  /// returns, all ranks have done so. A context of the device is current, here and below.
  Status release(const exec::DeviceRankOptions& options);
  /// The same: memory for all rings, at the same addresses. kSystemError, on all ranks: some rank
  /// found none, and all rings are released as before; the message says which, and why.
  Status restore(const exec::DeviceRankOptions& options);
  /// That this rank's ring takes of its device, if it is not released.
  uint64_t device_bytes() const;

  drivers::cuda::CUdevice device() const { return device_; }
  DeviceAddresses addresses() const;
  PairAddresses pair_addresses() const;
  /// Where the slots of calls in graphs lie: no words.
  PairAddresses captured_slots() const;
  /// By rank: its FusedMemory, which is all zeros at first; empty: there is none.
  std::vector<CUdeviceptr> fused_memories() const;
  /// OK, or why there is none. A rank's own.
  const Status& fused() const { return fused_; }
  const FusedLayout& fused_layout() const { return fused_layout_; }
  /// Of this rank's `finished`.
  CUdeviceptr finished() const;

  /// Collective, when all rings are there: binds them to one multicast address, if the ranks want
  /// that and can. `ready`: OK, or why this rank cannot otherwise. Another error than kUnsupported
  /// of the ranks is one of the exchange.
  Status share_places(const exec::DeviceRankOptions& options, const Status& ready);
  /// OK, or why there is no such address. Equal on all ranks.
  const Status& shares_places() const { return shares_; }

  /// Which rings lie in pinned memory, and why; "": none. Equal on all ranks.
  const std::string& why_pinned() const { return why_pinned_; }

 private:
  /// A ring as its rank tells the others of it.
  struct Offer {
    RingPlace place = RingPlace::kDevice;
    int descriptor = -1;
    uint64_t bytes = 0;
    std::string reason;  // why it is pinned; "": some peer did not reach it
  };

  /// The rings that a rank does not reach, and why not.
  struct Far {
    std::vector<size_t> ranks;  // not empty
    std::string why;
  };

  DeviceRing(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
             const exec::DeviceRankOptions& options);
  Status prepare(const exec::DeviceRankOptions& options);
  Status register_pages(const exec::DeviceRankOptions& options);
  Status share(const exec::DeviceRankOptions& options, Status ready);
  Status make(const exec::DeviceRankOptions& options);
  Status clear_fused() const;
  void release_here();
  Status restore_own(const exec::DeviceRankOptions& options);
  Status restore_theirs(Descriptors descriptors);
  Status restore_places(const exec::DeviceRankOptions& options);
  uint64_t padded(uint64_t bytes, const exec::DeviceRankOptions& options) const;
  uint64_t fused_offset() const;
  std::string offer() const;
  static std::optional<Offer> read_offer(std::string_view text);
  static std::vector<int> numbers_in(const std::vector<std::string>& texts);
  Status import(const std::vector<std::string>& texts, Descriptors descriptors,
                const exec::DeviceRankOptions& options);
  Status import(size_t rank, const Offer& offer, Fd descriptor, const std::string& device);
  std::string unsupported_reason(const drivers::cuda::DeviceFacts& facts,
                                 const exec::DeviceRankOptions& options) const;
  std::string outcome() const;
  static Far read_far(std::string_view text);
  Status check_outcomes(const std::vector<std::string>& outcomes,
                        const exec::DeviceRankOptions& options);
  void explain();
  /// Whether the rank's ring is not on this rank's device.
  bool is_elsewhere(size_t rank) const;

  const drivers::cuda::Cuda& cuda_;
  const drivers::cuda::CUdevice device_;
  const size_t rank_;
  const uint64_t ring_bytes_;  // without the slots
  const PairSlots slots_, captured_slots_;
  const FusedLayout fused_layout_;
  Status fused_;
  std::string own_reason_;             // why this rank's ring is pinned from the first
  std::vector<bool> is_other_device_;  // by rank: than this rank's
  std::vector<RingPlace> places_;      // by rank
  std::vector<bool> moving_;           // by rank: it offers a ring in this round
  std::vector<Status> reached_;        // by rank: whether this rank's device reaches its ring
  Status shares_ = Status::unsupported("nobody asked for it");
  std::optional<MulticastRing> places_of_all_;
  std::string reason_;  // why the first that is pinned is so
  std::string why_pinned_;
  std::optional<SharedRing> mine_;                 // none: a rank alone
  Fd exported_;                                    // until all have imported it
  std::vector<std::optional<SharedRing>> theirs_;  // by rank
  std::vector<AliasMapping> aliases_;  // of the arenas' pages: graphs keep these for longer
  std::vector<drivers::cuda::RegisteredMemory> pages_;  // by rank; end before the aliases
};

}  // namespace tutti::engines::cuda
