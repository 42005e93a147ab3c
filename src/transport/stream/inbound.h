// Acts on the frames that come: their payload goes into posted receives, regions, and the ring of a
// channel; control frames change what this side may do.
//
// It knows no pipe. A pipe of bytes gives it a header, asks where the payload shall be read to, and
// says what was read; a pipe of messages hands it whole frames.
//
// Owns: no bytes. Threads: under the stream's mutex. Errors: fault(); then nothing more may come.
// Memory: bounded, whatever comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "src/transport/stream/channel_table.h"
#include "src/transport/stream/outbound.h"
#include "src/transport/stream/regions.h"

namespace tutti::transport::stream {

/// A message and its receive differ, and the epoch of their channel cannot go on.
struct FoundMismatch {
  bool here = false;  // this side received it; else the peer, which says so
  transport::ChannelId channel;
  Mismatch mismatch;
};

class Inbound {
 public:
  Inbound(ChannelTable& channels, Regions& regions, Outbound& outbound, MessagePool& pool,
          TicketWindow& tickets)
      : channels_(channels),
        regions_(regions),
        outbound_(outbound),
        pool_(pool),
        tickets_(tickets) {}

  /// A frame begins. False: see fault().
  bool begin(const FrameHeader& header);
  /// Of the frame that arrives now.
  uint64_t payload_left() const { return payload_left_; }
  /// Where its next bytes go: number of entries used. None: they are discarded, by take().
  size_t places(std::span<iovec> out) const;
  /// `count` bytes have been put there.
  void arrived(uint64_t count);
  /// Takes payload bytes that came together with a header.
  void take(const std::byte* source, uint64_t count);
  /// Acts on a frame that only links with placed bytes know. False: see fault().
  bool take_placed(const FrameHeader& header, std::span<const std::byte> payload);

  bool sound() const { return fault_ == nullptr; }
  /// The peer did what no Tutti does. False.
  bool refuse(const char* what);
  /// The words for that; null: nothing.
  const char* fault() const { return fault_; }
  bool has_found_mismatch() const { return !mismatches_.empty(); }
  std::vector<FoundMismatch> take_mismatches() { return std::exchange(mismatches_, {}); }
  /// Runs for every note.
  void on_note(std::function<void(transport::ChannelId)> hook) { on_note_ = std::move(hook); }

  /// Finishes what a posted receive, or a frame, has made complete on this channel.
  void settle(Channel& channel);
  /// The channel is going away; what is on its way to it is discarded.
  void forget(Channel& channel);
  /// The region is withdrawn: likewise.
  void forget(const Regions::Id& region);
  /// All regions of the epoch are.
  void forget(transport::EpochId epoch);

 private:
  Channel* channel_of(const FrameHeader& header);
  bool begin_data(const FrameHeader& header);
  bool apply_credit(const FrameHeader& header);
  bool take_mismatch(const FrameHeader& header);
  bool take_note(const FrameHeader& header);
  bool begin_put(const FrameHeader& header);
  bool begin_answer(const FrameHeader& header);
  bool accept(const char* wrong);
  bool take_over(const FrameHeader& header);
  bool take_target(const FrameHeader& header, const KeyedPlace& place);
  bool take_placed_data(const FrameHeader& header, uint64_t bytes);
  void finish_frame();

  ChannelTable& channels_;
  Regions& regions_;
  Outbound& outbound_;
  MessagePool& pool_;
  TicketWindow& tickets_;

  uint64_t payload_left_ = 0;  // of the frame that arrives now
  // Where it goes: to one of these; none: it is discarded.
  Channel* target_ = nullptr;
  Regions::Landing landing_;
  Message* answer_ = nullptr;
  Regions::Id region_;  // landing_'s
  std::function<void(transport::ChannelId)> on_note_;
  const char* fault_ = nullptr;
  std::vector<FoundMismatch> mismatches_;
};

}  // namespace tutti::transport::stream
