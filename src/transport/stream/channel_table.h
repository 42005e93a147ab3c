// All channels of a link, found by id; and which epoch of each communicator is the current one.
//
// An epoch ends on this side by end(), or by the first use of a later one: its channels are dropped
// with everything queued on them, and bytes that a straggler still sends there are read and
// discarded. The peer ends it for itself. A communicator of which both ends have left the last
// epoch is forgotten.
//
// Owns: the channels. Threads: under the stream's mutex. A peer can open kMaxForeign channels that
// this side has not used yet, and end kMaxForeignEpochs, which bounds what it can make us remember.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

#include "src/transport/stream/channel.h"

namespace tutti::transport::stream {

class ChannelTable {
 public:
  static constexpr size_t kMaxForeign = 1024;
  static constexpr size_t kMaxForeignEpochs = 64 * 1024;

  /// For this side's send or receive; null if the epoch is over. `retire` is told of every channel
  /// that ends here, while it still exists.
  Channel* use(transport::ChannelId id, const std::function<void(Channel&)>& retire);

  enum class Known { kYes, kStale, kTooMany };
  /// For a frame of the peer: `channel` is null unless kYes.
  Known find(transport::ChannelId id, Channel*& channel);
  /// Of all channels of an epoch, and of those to come; `each` changes those that exist.
  void prioritize(transport::EpochId epoch, transport::Priority priority,
                  const std::function<void(Channel&)>& each);
  /// Ends an epoch, and those before it, on this side. False: it had ended.
  bool end(transport::EpochId epoch, const std::function<void(Channel&)>& retire);
  bool has_ended(transport::EpochId epoch) const;
  /// The peer has ended it; `each` is told of every channel of it. False: it ends more than one
  /// peer may.
  bool end_there(transport::EpochId epoch, const std::function<void(Channel&)>& each);
  /// The peer has read that this side ended it.
  void note_seen(transport::EpochId epoch);
  /// The peer has read it, or both ends have forgotten the communicator.
  bool is_seen(transport::EpochId epoch) const;

  /// A channel that either side has used; null if there is none.
  const Channel* look(transport::ChannelId id) const;

 private:
  struct ChannelIdHash {
    size_t operator()(const transport::ChannelId& id) const;
  };

  /// Epochs up to these; 0: none, since they are kept as epoch + 1.
  struct EpochsOf {
    uint64_t used = 0;  // by this side
    uint64_t ended = 0, seen = 0;
    uint64_t ended_there = 0;
    transport::EpochId high;  // that was prioritized last; has_high: to kHigh
    bool has_high = false;
    bool listed = false;  // in over_
  };

  // This side may still ask for them, from threads that do not know yet.
  static constexpr size_t kRemembered = 4096;

  static uint64_t count_of(uint32_t epoch) { return uint64_t{epoch} + 1; }
  void drop(uint64_t communicator, uint64_t below, const std::function<void(Channel&)>& retire);
  void forget_if_over(uint64_t communicator);
  Channel* make(transport::ChannelId id);
  bool stale(transport::ChannelId id) const;
  void begin_epoch(transport::ChannelId id, const std::function<void(Channel&)>& retire);
  Channel* lookup(transport::ChannelId id);

  std::unordered_map<transport::ChannelId, Channel, ChannelIdHash> channels_;
  std::unordered_map<uint64_t, EpochsOf> epochs_;  // by communicator
  std::deque<uint64_t> over_;  // communicators that both ends have left; the last kRemembered
  Channel* latest_ = nullptr;  // most messages follow one of the same channel
  size_t foreign_ = 0;
};

}  // namespace tutti::transport::stream
