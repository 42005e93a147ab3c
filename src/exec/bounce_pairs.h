// Transfers between hosts on device memory: how a call's bounce buffer is cut for them.
//
// A transfer goes in pieces. In each direction with a rank of another host the pieces of a call
// take turns in slots, and two words tell of them, which begin at 0 in each run of the call, rise,
// and have one writer each:
//   by_stream  so many pieces lie in slots (of a send), or are out of them (of a receive)
//   by_host    so many pieces are out of their slots (of a send), or lie in them (of a receive)
// A slot is used again when the piece before is out of it. So a direction takes two slots, however
// long its transfers are: one piece is on the wire while the next one crosses to or from the host.
//
// Both ends cut alike: the length of a piece follows from the number of ranks alone.
//
// Threads: a layout is a value; words are read and written by any. Errors: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/exec/arena_map.h"
#include "src/exec/bounce_buffer.h"
#include "src/exec/transfer.h"

namespace tutti::exec {

/// One direction with a rank of another host.
struct BounceDirection {
  uint32_t peer = 0;
  bool sends = false;
  uint64_t slot_bytes = 0;  // a piece, but for the last one of a transfer
  uint64_t slots = 0;       // 0: its transfers have no bytes
  uint64_t place = 0;       // of its slots, in the buffer's memory
};

/// The words by which a stream and its host tell each other of one direction.
struct BounceDirectionWords {
  DevicePage::Word by_stream, by_host;
};

class BouncePairs final : public BounceShape {
 public:
  static constexpr uint64_t kSlots = 2;

  /// Of the transfers of a call with ranks of other hosts, in a group of so many ranks.
  BouncePairs(std::span<const Transfer> transfers, int ranks);

  static uint64_t piece_bytes(int ranks);
  uint64_t bytes() const override { return bytes_; }
  void begin(std::byte* memory) const override;
  void let_go(std::byte* memory) const override;

  const std::vector<BounceDirection>& directions() const { return directions_; }
  /// How many.
  size_t transfers() const { return of_transfers_.size(); }
  /// Of a transfer, by its number among those of the call: which direction it is in.
  uint32_t direction_of(size_t transfer) const { return of_transfers_[transfer]; }
  BounceDirectionWords& words(std::byte* memory, uint32_t direction) const {
    return reinterpret_cast<BounceDirectionWords*>(memory)[direction];
  }

 private:
  std::vector<BounceDirection> directions_;
  std::vector<uint32_t> of_transfers_;
  uint64_t bytes_ = 0;
};

/// A bounce buffer as a call has it. A view.
struct BounceOfPairs {
  const BouncePairs* pairs = nullptr;  // null: all ranks are of this host
  std::byte* memory = nullptr;
};

/// The host's part of such transfers.
struct BouncedTransfers {
  std::vector<Transfer> transfers;  // with ranks of other hosts; their memory is the streams'
  std::shared_ptr<const BouncePairs> pairs;
  std::weak_ptr<NetworkCrossing> crossing;  // which the call's fence keeps
  /// A rank of this host that the streams wait for, if they wait for one.
  std::function<std::optional<uint32_t>()> find_late;
};

}  // namespace tutti::exec
