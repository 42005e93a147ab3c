// Says which frame leaves next: those of channels of high priority first, then in turn over the
// others, a frame of each at a time; one-sided messages have a queue of their own, without credit,
// that takes turns with all channels of normal priority. Control frames go first.
//
// It knows no pipe: next() describes a frame, and whoever carries it says by landed() that the
// bytes of its message are read no more. A pipe that writes into the peer's memory by itself asks
// next_write() too, and tells the peer of each write behind it (written()).
//
// Owns:    messages until their last frame has landed; they go back to the pool then.
// Threads: under the stream's mutex.
// Units:   bytes.
// Errors:  none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "src/transport/stream/channel.h"
#include "src/transport/stream/placement.h"
#include "src/transport/stream/remote_regions.h"
#include "src/transport/stream/tickets.h"

namespace tutti::transport::stream {

/// A frame that is about to leave.
struct OutFrame {
  FrameHeader header;
  Message* message = nullptr;  // the payload is of; null: a control frame
  size_t pieces = 0;           // of the payload, in the caller's list
  /// The payload of a control frame, which is of no message.
  std::array<std::byte, kMaxControlPayload> control;
  size_t control_bytes = 0;
};

class Outbound {
 public:
  Outbound(MessagePool& pool, TicketWindow& sent, TicketWindow& received)
      : pool_(pool), sent_(sent), received_(received) {}

  /// The pipe writes into the peer's memory where the peer says how, and perhaps reads it, too.
  void place(bool reads) {
    places_ = true;
    reads_ = reads;
  }
  bool places() const { return places_; }

  /// This channel may have something to send.
  void enlist(Channel& channel);
  /// This channel owes the peer a grant.
  void owe_credit(Channel& channel);
  /// This channel has a note for the peer.
  void owe_note(Channel& channel);
  /// The note of this channel leaves though the channel ends.
  void tell_last(Channel& channel);
  /// A frame without a message; a place, where its type has one.
  void push_control(const FrameHeader& header, const KeyedPlace* place = nullptr);
  /// This side has ended the epoch: puts and answers of it are dropped, the peer's gets refused.
  /// Its channels are forgotten one by one.
  void drop(transport::EpochId epoch);
  /// Answers that read this region are cut off.
  void cut_off(const transport::ChannelId& region);
  /// The peer has ended the epoch: it is told when nothing is written to its memory any more.
  void end_there(transport::EpochId epoch);
  /// The peer takes nothing of this channel any more.
  void unlist(Channel& channel);
  /// Whether a write reads memory of this epoch.
  bool writes_of(transport::EpochId epoch) const { return writes_.has_any_in(epoch); }
  /// The channel leaves its lists, to be listed anew by another priority.
  void relist(Channel& channel, transport::Priority priority);
  /// The channel is going away.
  void forget(Channel& channel);
  /// A one-sided message.
  void push(Message* message);
  /// Of the peer.
  RemoteRegions& regions() { return regions_; }
  /// A get that the pipe can make by itself.
  bool can_read(const transport::ChannelId& region, uint64_t offset, uint64_t bytes) const;
  /// The peer's region ends: it is told when nothing is written to it, or read, any more. True:
  /// reads of it were waiting, and end without their bytes.
  bool forget_region(const transport::ChannelId& region);
  /// Answers and refusals of which a pipe may still read something.
  size_t answers() const { return answering_.size(); }
  /// Whether an answer reads this region.
  bool reads(const transport::ChannelId& region) const;

  /// Counts a frame as sent and describes it, its payload in `room` and at most `limit` bytes long.
  /// False: nothing is ready.
  bool next(OutFrame& frame, std::span<iovec> room, uint64_t limit);
  /// The bytes of the message's frame are read no more; null: of a control frame.
  void landed(Message* message);
  bool idle() const;
  /// A channel of high priority has a frame to send: next() gives it soon.
  bool is_urgent() const { return ready_[kHigh].head != nullptr || credit_[kHigh].head != nullptr; }

  /// The most bytes of a write, and of one that is a put or a get.
  struct WriteLimits {
    uint64_t message = 0;
    uint64_t one_sided = 0;
  };
  /// A write that may begin now, its source in `room`.
  std::optional<PlacedWrite> next_write(std::span<iovec> room, const WriteLimits& limits);
  /// The bytes of that write are where they belong, or are counted there by the receiver, which
  /// must have seen `segments` of it.
  /// False: there is no such write.
  bool written(uint64_t write, uint32_t segments);
  /// The pipe makes that write, or read, never.
  void abandon(uint64_t write);

  /// A note, or a mismatch, that the peer has not been told of; for the last words of a link.
  std::optional<FrameHeader> take_note();
  /// Nothing new from here on.
  void close();
  bool closed() const { return closed_; }

 private:
  static constexpr auto kHigh = static_cast<size_t>(transport::Priority::kHigh);
  static constexpr auto kNormal = static_cast<size_t>(transport::Priority::kNormal);
  static size_t class_of(const Channel& channel) { return static_cast<size_t>(channel.priority); }

  struct List {
    Channel* head = nullptr;
    Channel* tail = nullptr;
  };
  struct ControlFrame {
    FrameHeader header;
    std::array<std::byte, kMaxControlPayload> payload;
    size_t bytes = 0;
  };

  static void append(List& list, Channel& channel, Channel* Channel::*next);
  static Channel* take(List& list, Channel* Channel::*next);
  static void remove(List& list, Channel& channel, Channel* Channel::*next);

  void enlist_in_turn(Channel& channel);
  Channel* take_ready(size_t priority);
  void next_note(OutFrame& frame);
  void next_control(OutFrame& frame);
  bool next_of(size_t priority, OutFrame& frame, std::span<iovec> room, uint64_t limit);
  void next_credit(OutFrame& frame, List& list);
  void next_data(OutFrame& frame, Channel& channel, std::span<iovec> room, uint64_t limit);
  bool may_send_one_sided() const;
  void next_one_sided(OutFrame& frame, std::span<iovec> room, uint64_t limit);
  PlacedWrite write_of(Channel& channel, std::span<iovec> room, uint64_t limit);
  PlacedWrite write_of_put(std::span<iovec> room, uint64_t limit);
  PlacedWrites::Line reads_line() { return &reads_; }
  std::optional<KeyedPlace> place_of(const Message& message) const;
  bool front_is_aimed() const;
  bool may_place_front();
  void push_placed(const PlacedWrites::WrittenFrame& done);
  void tell_ended();
  template <class Which>
  void refuse_answers(Which which);

  MessagePool& pool_;
  TicketWindow& sent_;
  TicketWindow& received_;
  bool places_ = false;
  bool reads_ = false;
  bool closed_ = false;
  bool one_sided_is_next_ = false;
  List ready_[transport::kPriorities];
  // Of those, where the next bytes have a target in the peer's memory.
  List aimed_[transport::kPriorities];
  List credit_[transport::kPriorities];
  List note_;
  std::deque<ControlFrame> control_;
  MessageQueue one_sided_;
  std::vector<const Message*> answering_;
  PlacedWrites writes_;
  RemoteRegions regions_;
  std::vector<transport::ChannelId> ending_;  // of them: it waits for WITHDRAWN
  std::vector<transport::EpochId> over_;      // it waits for OVER_SEEN
};

}  // namespace tutti::transport::stream
