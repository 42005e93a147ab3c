// Turns what may be sent into gather lists, in turn over the channels, a frame of each at a time;
// one-sided messages have a queue of their own, without credit, that takes turns with all channels.
//
// A batch of frames is fixed once and written in as many calls as the kernel needs. Control frames
// go first.
// Owns:    the batch and its headers; messages in the batch go back to the pool when written.
// Threads: under the stream's mutex.
// Units:   bytes.
// Errors:  none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/transport/stream/channel.h"
#include "src/transport/stream/tickets.h"

namespace tutti::transport::stream {

class Outbound {
 public:
  Outbound(MessagePool& pool, TicketWindow& tickets) : pool_(pool), tickets_(tickets) {}

  /// This channel may have something to send.
  void enlist(Channel& channel);
  /// This channel owes the peer a grant.
  void owe_credit(Channel& channel);
  /// This channel has a note for the peer.
  void owe_note(Channel& channel);
  /// The channel is going away.
  void forget(Channel& channel);
  /// A one-sided message.
  void push(Message* message);
  /// Answers and refusals that are not written yet.
  size_t answers() const { return answers_; }
  /// Whether an answer that is not written yet reads this region.
  bool reads(const transport::ChannelId& region) const;

  /// The bytes to write next; empty when there are none.
  std::span<const iovec> gather();
  /// That many bytes of it were written.
  void wrote(size_t count);
  bool idle() const {
    return !batch_left() && ready_.head == nullptr && credit_.head == nullptr &&
           note_.head == nullptr && one_sided_.empty();
  }

  /// Nothing new from here on: finishes the frame that is half on the wire, drops all others but
  /// notes. Sources are read for the last time, so those of unfinished messages must still be
  /// there.
  void leave();
  /// The same, with this as the last word.
  void farewell(const FrameHeader& last);

 private:
  static constexpr size_t kMaxFrames = 32;
  static constexpr size_t kMaxEntries = 256;
  static constexpr uint64_t kBatchBytes = 1024 * 1024;

  struct QueuedFrame {
    uint64_t end = 0;             // of this frame, counted from the start of the batch
    Message* finished = nullptr;  // the message that ends with it
    bool note = false;
  };
  struct List {
    Channel* head = nullptr;
    Channel* tail = nullptr;
  };

  static void append(List& list, Channel& channel, Channel* Channel::*next);
  static Channel* take(List& list, Channel* Channel::*next);
  static void remove(List& list, Channel& channel, Channel* Channel::*next);

  bool batch_left() const { return next_entry_ < entries_used_; }
  bool batch_full() const;
  void build();
  void add_credit(Channel& channel);
  void add_note(Channel& channel);
  void add_data(Channel& channel);
  void add_one_sided();
  uint64_t add_payload(const Message& message, uint64_t limit);
  std::byte* add_header();
  void save_half_frame();
  void save_notes();
  void close();
  void finish_frames();

  MessagePool& pool_;
  TicketWindow& tickets_;
  List ready_;
  List credit_;
  List note_;
  MessageQueue one_sided_;
  size_t answers_ = 0;

  std::array<std::array<std::byte, kHeaderBytes>, kMaxFrames> headers_;
  std::array<QueuedFrame, kMaxFrames> frames_;
  std::array<iovec, kMaxEntries> entries_;
  size_t frames_used_ = 0;
  size_t next_frame_ = 0;  // the first that is not wholly written
  size_t entries_used_ = 0;
  size_t next_entry_ = 0;
  uint64_t batch_bytes_ = 0;
  uint64_t written_ = 0;
  std::vector<std::byte> last_words_;
  bool closed_ = false;
};

}  // namespace tutti::transport::stream
