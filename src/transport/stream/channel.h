// The two directions of one channel: what waits to be sent within the peer's credit, and what
// arrives, into a posted receive or, within the eager quota, into a ring until one is posted.
//
// Credit. Let P be the positions that all receives posted so far take. The receiver grants up to P
// + kEagerBytes: posted receives have their targets, the rest fits the ring. A grant is worth a
// frame when half of the quota is used up; a large receive is granted at once.
//
// Owns:    the ring; messages belong to the pool.
// Threads: under the stream's mutex.
// Units:   bytes, positions (frame.h).
// Errors:  a const char* says what the peer did wrong; null is fine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "src/transport/stream/frame.h"
#include "src/transport/stream/message.h"
#include "src/transport/stream/placement.h"
#include "src/transport/transport.h"

namespace tutti::transport::stream {

/// A message of a peer that differs from the one that this side expected.
struct Mismatch {
  uint32_t sent_signature = 0;
  uint64_t sent_bytes = 0;
  uint32_t expected_signature = 0;
  uint64_t expected_bytes = 0;
};

class SendSide {
 public:
  void push(Message* message) { queue_.push(message); }
  /// The first message may put a frame on the wire now.
  bool sendable() const;
  /// How much of the first message may go by its credit.
  uint64_t allowance() const;
  Message* front() const { return queue_.front(); }
  /// Describes a frame with the next `length` bytes of the first message and counts them as sent.
  /// The message leaves the queue with its last byte.
  FrameHeader begin_frame(uint32_t length);
  /// Null, or why this grant cannot be true.
  const char* grant(uint64_t position);
  /// The peer's memory for these positions.
  const char* aim(uint64_t position, uint64_t bytes, const KeyedPlace& place) {
    return targets_.add(position, bytes, place);
  }
  /// Where the next bytes of the first message may be written to, and how many; null: nowhere.
  const KeyedPlace* target(uint64_t& rest) { return targets_.find(position_ + overhead(), rest); }
  /// The next bytes of the first message go to a target, or not at all.
  bool needs_target() const { return queue_.front()->only_placed && queue_.front()->left() > 0; }
  void drop_all(MessagePool& pool);
  /// The peer takes nothing more.
  void close() {
    closed_ = true;
    targets_ = {};
  }

 private:
  uint64_t overhead() const { return queue_.front()->moved == 0 ? kRecordBytes : 0; }

  MessageQueue queue_;
  Targets targets_;
  uint64_t position_ = 0;
  uint64_t granted_ = kEagerBytes;
  bool closed_ = false;
};

class ReceiveSide {
 public:
  /// Queues a receive; bytes that are here already are copied. False: see mismatch().
  bool post(Message* message);
  /// A frame of DATA begins. Null, or what is wrong with it. A mismatch shows in mismatched().
  const char* begin_frame(const FrameHeader& header);
  /// Where the next payload bytes go, at most `limit`: number of entries used.
  size_t places(std::span<iovec> out, uint64_t limit) const;
  /// `count` bytes have been put there.
  void arrived(uint64_t count);
  /// Takes payload bytes that came together with a header.
  void take(const std::byte* source, uint64_t count);
  /// The bytes of the frame that has begun lie in the posted receive already. Null, or why not.
  const char* take_placed(uint64_t count);
  /// Null, or what is wrong with bytes that were here before their receive was posted.
  const char* fault() const { return fault_; }
  /// The position of the first byte of the receive that was posted last.
  uint64_t last_position() const { return posted_ - last_bytes_; }
  /// The first posted receive, if all its bytes are here (at most one after each call); removes it.
  Message* pop_complete();

  bool mismatched() const { return mismatched_; }
  const Mismatch& mismatch() const { return mismatch_; }

  bool credit_due() const { return posted_ + kEagerBytes - granted_ >= kEagerBytes / 2; }
  /// A posted receive waits for credit that the peer does not have yet.
  bool starving() const { return posted_ > granted_; }
  uint64_t issue_grant() { return granted_ = posted_ + kEagerBytes; }
  void drop_all(MessagePool& pool);

 private:
  /// The record in the ring before the bytes of a message.
  struct RingRecord {
    uint64_t bytes;
    uint32_t signature;
    uint32_t padding;
  };
  static_assert(sizeof(RingRecord) == kRecordBytes);

  bool match(uint32_t signature, uint64_t bytes);
  size_t ring_span(uint64_t from, uint64_t count, std::span<iovec> out) const;
  void ring_write(const void* source, uint64_t count);
  void ring_read(void* target, uint64_t count);

  MessageQueue posted_queue_;
  bool matched_ = false;  // the first posted receive has met its message

  uint32_t arriving_signature_ = 0;  // the message whose frames come now
  uint64_t arriving_bytes_ = 0;
  uint64_t arriving_left_ = 0;

  uint64_t received_ = 0;  // positions
  uint64_t posted_ = 0;
  uint64_t last_bytes_ = 0;
  uint64_t granted_ = kEagerBytes;

  std::unique_ptr<std::byte[]> ring_;  // made when a message first comes too early
  uint64_t ring_head_ = 0;             // rising; [head, tail) is filled
  uint64_t ring_tail_ = 0;

  bool mismatched_ = false;
  Mismatch mismatch_;
  const char* fault_ = nullptr;
};

struct Channel {
  explicit Channel(transport::ChannelId channel_id) : id(channel_id) {}

  transport::ChannelId id;
  transport::Priority priority = transport::Priority::kNormal;
  bool used_here = false;  // this side has sent or received on it
  bool in_ready = false;   // listed in Outbound
  uint32_t writes = 0;     // into the peer's memory, under way or not told yet
  bool mismatch_found = false;
  bool in_credit = false;
  bool in_note = false;
  Channel* next_ready = nullptr;
  Channel* next_credit = nullptr;
  Channel* next_note = nullptr;
  transport::Note told;  // goes out when there is room
  transport::Note heard;
  uint64_t notes_heard = 0;
  SendSide out;
  ReceiveSide in;
};

}  // namespace tutti::transport::stream
