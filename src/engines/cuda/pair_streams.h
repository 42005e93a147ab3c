// Sends and receives by copy engines: what a rank puts into a CUDA stream for a group of transfers.
//
// An ordered pair of ranks has slots in the sender's memory. A transfer goes in pieces of a slot.
// The sender's stream waits until the slot is free, copies a piece into it, and says so; the
// receiver's waits for that, copies the piece out and says so. By which words they say it is the
// concern of the classes below PairStreams.
//
// CountedPairs, for eager calls: all pieces of a pair are counted, across calls. The sender raises
// `sent`, the receiver `taken`. So a stream writes its own rank's memory only, and each word has
// one writer. captured_pairs.h has those of calls in graphs.
//
// Pieces of one group go in *steps*: step k holds the (k+1)-th piece of every direction in which
// this rank sends and the k-th of every one in which it receives. First all waits of the step, then
// all its copies as one batch, then all its signals. This is why no order of transfers in a group,
// and no cycle of ranks, stands still, though a stream does one thing after the other: let the
// ranks' groups be numbered such that both ends of a transfer are in groups of one number, and name
// a step by the number of its group and its own. A wait for `sent` is for a signal that the peer
// gives in the step before, of the same group; with n slots, a wait for one that is free is for a
// piece n earlier of the pair, which the peer takes n - 1 >= 1 steps earlier, or in an earlier
// group. So every wait is for a signal of an earlier step, and the first of the steps that are not
// done can be done.
//
// Where one end has a group and the other one calls each transfer by itself there is no such
// number. Then transfers of up to n pieces go well wherever those of NCCL do, between two
// ranks, since sending them waits for nothing of the same group; longer ones may stand still.
//
// A transfer that has a mark (exec::RegisteredTransfers) may be *direct*: what is sent lies in
// registered memory, and the sender writes where each piece does into the word of its slot's place,
// and no copy into the slot; or a 0, behind a copy. The receiver copies either by a kernel, which
// reads the word behind the wait (placed_pieces.h). So it takes the same steps whatever the other
// end does. When the steps of its group are done, a sender waits until all pieces that were read
// where they lie have been taken. Let that be one more step, behind all of the group: what it waits
// for are the peers' steps of the same group, which wait for no such step of it. But a direct send
// ends no earlier than its receive, as NCCL's do: two ranks that both send first, and not in a
// group, wait for each other.
//
// With ranks of other hosts a call's bounce buffer has the slots (exec/bounce_pairs.h), and the
// host's thread is the other end, which hands pieces to the network: it needs nothing of this rank
// but the two words. So the steps are the same, and the proof, in eager calls and in graphs.
//
// Threads: one at a time. Contexts: the stream's is current. Errors: of put(); some of the group
// may be in the stream then.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/drivers/cuda/stream.h"
#include "src/engines/cuda/fold_kernels.h"
#include "src/engines/cuda/side_stream.h"
#include "src/engines/streams/counted_words.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

/// A rank's memory for pairs: a share for each peer, cut into slots.
class PairSlots {
 public:
  static constexpr uint64_t kSlots = 4;

  PairSlots() = default;
  PairSlots(uint64_t bytes, size_t ranks);
  /// As long as these, but so many for each pair: at least two.
  PairSlots with(uint64_t slots) const;

  /// 0: there is no room.
  uint64_t slot_bytes() const { return slot_bytes_; }
  uint64_t slots() const { return slots_; }
  uint64_t pair_bytes() const { return slots_ * slot_bytes_; }
  /// Where the slots of `source` for `target` begin in the memory of `source`.
  uint64_t offset(size_t source, size_t target) const {
    return (target < source ? target : target - 1) * pair_bytes();
  }

 private:
  uint64_t slot_bytes_ = 0;
  uint64_t slots_ = kSlots;
};

/// Where this rank's streams find its two ends with a peer.
struct PairAddresses {
  /// Of one direction. The stream writes `own`, the first of one or several words, and waits for
  /// `other`, of which there are as many.
  struct PairEnd {
    drivers::cuda::CUdeviceptr slots = 0;
    drivers::cuda::CUdeviceptr own = 0;
    drivers::cuda::CUdeviceptr other = 0;
    bool crosses = false;                   // the slots are not on this rank's device
    drivers::cuda::CUdeviceptr places = 0;  // a word for each slot, which the sender writes
  };
  uint32_t rank = 0;
  PairSlots slots;
  std::vector<PairEnd> sends, receives;  // by peer
};

/// Where a group goes.
struct PairCall {
  drivers::cuda::CUstream stream = nullptr;
  SideStream* side = nullptr;  // null: `stream` takes lists of copies
  bool engines_alone = false;  // exec::StreamedTransfers'
  exec::BounceOfPairs bounce{};
  const exec::RegisteredTransfers* registered = nullptr;  // null: none
  const FoldKernels* kernels = nullptr;                   // null: only counted, or none registered
};

class PairStreams {
 public:
  /// `cuda` null: nothing is put anywhere, only counted.
  PairStreams(const drivers::cuda::Cuda* cuda, PairAddresses addresses);
  virtual ~PairStreams() = default;
  PairStreams(const PairStreams&) = delete;
  PairStreams& operator=(const PairStreams&) = delete;

  const PairSlots& slots() const { return addresses_.slots; }
  /// `transfers`: with ranks of this host, then those that the bounce buffer is for.
  Status put(const PairCall& call, std::span<const exec::Transfer> transfers);
  /// Behind put(): `word` becomes `value` when the stream is past all of it.
  Status finish(drivers::cuda::CUdeviceptr word, uint64_t value);
  /// Since put() began.
  const exec::DeviceCounts& counts() const { return counts_; }

 protected:
  /// One direction with a peer of this host: 2 * peer, and 1 more for what this rank sends. Behind
  /// them those of the call's bounce buffer, which count from 0 in each call.
  using Direction = size_t;
  static size_t peer_of(Direction direction) { return direction / 2; }
  static bool sends(Direction direction) { return direction % 2 == 1; }
  static Direction direction_of(size_t peer, bool sends) { return 2 * peer + (sends ? 1 : 0); }
  size_t directions() const { return near_; }
  const PairAddresses::PairEnd& end_of(Direction direction) const {
    return sends(direction) ? addresses_.sends[peer_of(direction)]
                            : addresses_.receives[peer_of(direction)];
  }
  /// So many pieces were put into streams before the next one.
  uint64_t pieces(Direction direction) const { return directions_[direction].pieces; }
  uint64_t slot_of(Direction direction) const { return pieces(direction) % slots().slots(); }
  /// The step that is being put.
  uint64_t step() const { return step_; }

  /// A group begins.
  virtual void begin() {}
  /// Adds what the next piece of the direction waits for: its slot is free, or full.
  virtual void wait(Direction direction, drivers::cuda::MemoryOps& words) = 0;
  /// Adds what says that the next piece of the direction is in its slot, or out of it.
  virtual void signal(Direction direction, drivers::cuda::MemoryOps& words) = 0;
  /// Adds the wait until all pieces of the direction, in which this rank sends, have been taken.
  virtual void wait_until_taken(Direction direction, drivers::cuda::MemoryOps& words) = 0;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct DirectionState {
    uint64_t pieces = 0;                     // that have been put into streams
    uint32_t current = kNone, last = kNone;  // of the group's transfers; kNone: no more
    uint64_t moved = 0;                      // of the current one
    bool is_read = false;                    // something of this group is read where it lies
  };

  bool is_far(Direction direction) const { return direction >= near_; }
  bool is_sent(Direction direction) const;
  uint64_t slot_bytes_of(Direction direction) const;
  drivers::cuda::CUdeviceptr slot_address(Direction direction) const;
  void add_wait(Direction direction);
  void add_signal(Direction direction);
  void line_up(std::span<const exec::Transfer> transfers);
  void put_in_line(uint32_t transfer, Direction index);
  void copy_own(std::span<const exec::Transfer> transfers);
  bool put_step(std::span<const exec::Transfer> transfers);
  void copy(Direction direction, const exec::Transfer& transfer);
  uint32_t mark_of(Direction direction) const;
  uint64_t place_of(Direction direction) const;
  drivers::cuda::CUdeviceptr place_word_of(Direction direction) const {
    return end_of(direction).places + slot_of(direction) * sizeof(uint64_t);
  }
  void add_end();
  bool put_pieces();
  void advance(Direction direction, const exec::Transfer& transfer);
  bool put_copies();
  bool put_words();
  bool goes_behind(drivers::cuda::CUstream behind, drivers::cuda::CUstream before);
  bool keep(Status status) {  // the first error
    if (status_.ok()) status_ = std::move(status);
    return status_.ok();
  }

  const drivers::cuda::Cuda* const cuda_;
  const PairAddresses addresses_;
  PairCall call_;
  drivers::cuda::CUstream stream_ = nullptr;  // the caller's, or the one in its place
  const size_t near_;                         // directions
  std::vector<DirectionState> directions_;
  std::vector<uint32_t> next_;   // of the group's transfers: what the same direction has behind it
  std::vector<Direction> open_;  // directions that have something left
  drivers::cuda::CopyBatch copies_;
  drivers::cuda::MemoryOps words_;
  PlacedPieces pieces_;
  uint64_t piece_bytes_ = 0;  // of pieces_
  uint64_t step_ = 0;
  exec::DeviceCounts counts_;
  Status status_;
};

/// Of eager calls: one word for each direction, which counts.
class CountedPairs final : public PairStreams {
 public:
  CountedPairs(const drivers::cuda::Cuda* cuda, PairAddresses addresses);

  /// Of the words that the other ends raise, since put() began.
  std::vector<streams::AwaitedWord> awaited() const;

 private:
  void begin() override;
  void wait(Direction direction, drivers::cuda::MemoryOps& words) override;
  void signal(Direction direction, drivers::cuda::MemoryOps& words) override;
  void wait_until_taken(Direction direction, drivers::cuda::MemoryOps& words) override;
  void wait_for(Direction direction, uint64_t value, drivers::cuda::MemoryOps& words);

  std::vector<uint64_t> highest_;  // by way: the value of the other end's word that a stream awaits
  std::vector<streams::AwaitedWord> in_group_;  // by way: the same, of this group
};

}  // namespace tutti::engines::cuda
