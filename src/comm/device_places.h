// Device memory that the ranks of a communicator have registered together, and which calls on
// streams of devices read there instead of staging.
//
// A stream is told addresses when a call is put into it, and that waits for nobody: so where the
// peers' buffers lie must follow from what a rank knows of its own. Memory that was registered as
// one lies on every rank at the same place of the same registration, as symmetric memory does; the
// place is part of the call that ranks compare. A call is *direct* if the buffer that peers read
// has such a place, if every rank has that buffer, and if it is long: a copy into the ring costs
// less than the hand-over by which a rank learns that the peers have read its buffer.
//
// Owns: the registrations. Threads: any, locked inside. Errors: kUnsupported is none: it says why a
// call is staged.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/request.h"
#include "src/exec/stream_rank.h"
#include "src/plan/match.h"

namespace tutti::comm {

/// How a direct call runs.
struct RegisteredCall {
  plan::Mode mode = plan::Mode::kPullInputs;
  bool in_place = false;  // that its plan is made for
  exec::PeerBuffers inputs, outputs;
  uint64_t first_copied = 0;  // exec::StreamedCall
  uint64_t place = 0;         // diagnosis::DescribedCall
  uint32_t mark = 0;          // equal on ranks whose buffers lie alike
};

class DevicePlaces {
 public:
  /// Handles of registrations; those of the host's memory are smaller.
  static constexpr uint64_t kFirstHandle = uint64_t{1} << 32;

  /// `shared` is from exec::DeviceRank::share(): its error says why calls stay staged.
  uint64_t add(std::byte* memory, uint64_t bytes,
               Result<std::shared_ptr<const exec::PeerMemory>> shared);
  /// Handles and bytes of all; and the last handle that was given.
  std::map<uint64_t, uint64_t> list() const;
  uint64_t last_handle() const;
  /// Of an epoch that follows an edit: handles go on behind `last`, equal on all ranks. `share` is
  /// collective, for each registration of `before` whose handle is among `of_all`; those of other
  /// handles are registered no more. An error is share()'s, but for kUnsupported.
  using Share =
      std::function<Result<std::shared_ptr<const exec::PeerMemory>>(std::byte*, uint64_t)>;
  Status take_over(const DevicePlaces& before, const std::set<uint64_t>& of_all,
                   const Share& share);
  void go_on_behind(uint64_t last);
  /// False if there is none of this handle. Calls that are under way keep what they read.
  bool remove(uint64_t handle);
  /// How the request runs on this rank, if it is direct. `least_bytes`: shorter inputs are staged.
  Result<RegisteredCall> find(const Request& request, bool in_place, int rank, int ranks,
                              uint64_t least_bytes) const;
  /// As exec::RegisteredTransfers has it; 0: no memory is registered that others can be given.
  uint32_t mark() const;
  /// Of transfers with peers that are longer than `piece_bytes`, as both ends know it.
  exec::RegisteredTransfers find(std::span<const exec::Transfer> transfers, int rank,
                                 uint64_t piece_bytes) const;
  /// The same of any registered buffers: what can be direct, apart from where they lie.
  static Result<RegisteredCall> shape_of(const Request& request, bool in_place, int ranks,
                                         uint64_t least_bytes);

 private:
  struct Registered {
    uint64_t handle = 0;
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
    Result<std::shared_ptr<const exec::PeerMemory>> shared;
  };
  using Memories = std::vector<std::shared_ptr<const exec::PeerMemory>>;
  struct RegisteredPlace {
    uint64_t handle = 0;
    uint64_t offset = 0;
    std::shared_ptr<const exec::PeerMemory> memory;
  };

  void refresh() TUTTI_REQUIRES(mutex_);
  uint32_t mark_here() const TUTTI_REQUIRES(mutex_);
  Result<RegisteredPlace> place_of(const void* buffer, uint64_t bytes, const char* name) const;

  mutable Mutex mutex_;
  std::vector<Registered> all_ TUTTI_GUARDED_BY(mutex_);
  std::set<uint64_t> unused_ TUTTI_GUARDED_BY(mutex_);  // handles whose memory an edit did not keep
  std::shared_ptr<const Memories> shared_ TUTTI_GUARDED_BY(mutex_);  // null: none
  uint64_t changes_ TUTTI_GUARDED_BY(mutex_) = 0;  // equal on all ranks, between the same calls
  uint64_t last_handle_ TUTTI_GUARDED_BY(mutex_) = kFirstHandle;
  std::atomic<bool> has_any_{false};  // written under mutex_
};

}  // namespace tutti::comm
