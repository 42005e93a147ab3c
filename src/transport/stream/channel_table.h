// All channels of a link, found by id; and which epoch of each communicator is the current one.
//
// The first use of an epoch on this side ends the older epochs of that communicator: their
// channels are dropped with everything queued on them, and what a straggler still sends there is
// read and discarded.
//
// Owns: the channels. Threads: under the stream's mutex. A peer can open kMaxForeign channels that
// this side has not used yet, which bounds what it can make us remember.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>

#include "src/transport/stream/channel.h"

namespace tutti::transport::stream {

class ChannelTable {
 public:
  static constexpr size_t kMaxForeign = 1024;

  /// For this side's send or receive; null if the epoch is over. `retire` is told of every channel
  /// that ends here, while it still exists.
  Channel* use(transport::ChannelId id, const std::function<void(Channel&)>& retire);

  enum class Known { kYes, kStale, kTooMany };
  /// For a frame of the peer: `channel` is null unless kYes.
  Known find(transport::ChannelId id, Channel*& channel);
  /// A channel that either side has used; null if there is none.
  const Channel* look(transport::ChannelId id) const;

 private:
  struct ChannelIdHash {
    size_t operator()(const transport::ChannelId& id) const;
  };

  bool stale(transport::ChannelId id) const;
  void begin_epoch(transport::ChannelId id, const std::function<void(Channel&)>& retire);
  Channel* lookup(transport::ChannelId id);

  std::unordered_map<transport::ChannelId, Channel, ChannelIdHash> channels_;
  std::unordered_map<uint64_t, uint32_t> epochs_;  // the newest that this side has used
  Channel* latest_ = nullptr;                      // most messages follow one of the same channel
  size_t foreign_ = 0;
};

}  // namespace tutti::transport::stream
