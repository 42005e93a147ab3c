#include "src/transport/stream/channel.h"

#include <algorithm>
#include <cstring>

namespace tutti::transport::stream {
namespace {

constexpr const char* kTouches = "bytes in a frame for memory that no processor may touch";

}  // namespace

// ---- sending ----------------------------------------------------------------------------------

bool SendSide::sendable() const {
  if (queue_.empty() || closed_) return false;
  const uint64_t least = overhead() + (queue_.front()->bytes > 0 ? 1 : 0);
  return granted_ - position_ >= least;
}

uint64_t SendSide::allowance() const {
  const uint64_t credit = granted_ - position_ - overhead();
  return std::min(credit, queue_.front()->left());
}

FrameHeader SendSide::begin_frame(uint32_t length) {
  Message* message = queue_.front();
  FrameHeader header;
  header.type = FrameType::kData;
  header.length = length;
  header.signature = message->signature;
  header.message_bytes = message->bytes;
  header.position = position_;
  position_ += overhead() + length;
  message->advance(length);
  if (message->complete()) queue_.pop();
  return header;
}

const char* SendSide::grant(uint64_t position) {
  if (position < granted_) return "a grant of credit that takes credit back";
  granted_ = position;
  return nullptr;
}

void SendSide::drop_all(MessagePool& pool) {
  while (!queue_.empty()) pool.abandon(queue_.pop());
}

// ---- receiving --------------------------------------------------------------------------------

bool ReceiveSide::match(uint32_t signature, uint64_t bytes) {
  const Message& expected = *posted_queue_.front();
  matched_ = expected.signature == signature && expected.bytes == bytes;
  if (matched_) return true;
  mismatched_ = true;
  mismatch_ = {signature, bytes, expected.signature, expected.bytes};
  return false;
}

bool ReceiveSide::post(Message* message) {
  posted_ += kRecordBytes + message->bytes;
  last_bytes_ = message->bytes;
  posted_queue_.push(message);
  if (ring_head_ == ring_tail_) return true;
  // The ring holds something, so no earlier receive waits, and this is the first one.
  RingRecord record;
  ring_read(&record, sizeof record);
  if (!match(record.signature, record.bytes)) return false;
  iovec parts[2];
  const uint64_t here = std::min(record.bytes, ring_tail_ - ring_head_);
  if (here > 0 && message->only_placed) {
    fault_ = kTouches;
    return true;
  }
  const size_t count = ring_span(ring_head_, here, parts);
  for (size_t i = 0; i < count; ++i) {
    message->fill(static_cast<const std::byte*>(parts[i].iov_base), parts[i].iov_len);
  }
  ring_head_ += here;
  return true;
}

const char* ReceiveSide::begin_frame(const FrameHeader& header) {
  const bool first = arriving_left_ == 0;
  const uint64_t cost = header.length + (first ? kRecordBytes : 0);
  if (header.position != received_) return "a frame is out of order";
  if (cost > granted_ - received_) return "more bytes than were granted";
  received_ += cost;
  if (mismatched_) return nullptr;  // it is discarded
  const bool touches = header.type == FrameType::kData && header.length > 0;
  if (touches && !posted_queue_.empty() && posted_queue_.front()->only_placed) return kTouches;
  if (!first) {
    if (header.signature != arriving_signature_ || header.message_bytes != arriving_bytes_) {
      return "a message changed on its way";
    }
    if (header.length > arriving_left_) return "a message is longer than it said";
    return nullptr;
  }
  arriving_signature_ = header.signature;
  arriving_bytes_ = header.message_bytes;
  arriving_left_ = header.message_bytes;
  if (!posted_queue_.empty()) {
    match(header.signature, header.message_bytes);
  } else {
    const RingRecord record{header.message_bytes, header.signature, 0};
    ring_write(&record, sizeof record);
  }
  return nullptr;
}

size_t ReceiveSide::places(std::span<iovec> out, uint64_t limit) const {
  if (mismatched_) return 0;
  if (!posted_queue_.empty()) return posted_queue_.front()->view(out, limit);
  return ring_span(ring_tail_, limit, out);
}

void ReceiveSide::arrived(uint64_t count) {
  arriving_left_ -= count;
  if (!posted_queue_.empty()) {
    posted_queue_.front()->advance(count);
  } else {
    ring_tail_ += count;
  }
}

void ReceiveSide::take(const std::byte* source, uint64_t count) {
  if (mismatched_) return;
  arriving_left_ -= count;
  if (!posted_queue_.empty()) {
    posted_queue_.front()->fill(source, count);
  } else {
    ring_write(source, count);
  }
}

const char* ReceiveSide::take_placed(uint64_t count) {
  if (mismatched_) return nullptr;
  if (posted_queue_.empty()) return "bytes were placed where no receive is";
  if (count > posted_queue_.front()->left()) return "more bytes were placed than were asked for";
  arrived(count);
  return nullptr;
}

Message* ReceiveSide::pop_complete() {
  if (!matched_ || !posted_queue_.front()->complete()) return nullptr;
  matched_ = false;
  return posted_queue_.pop();
}

void ReceiveSide::drop_all(MessagePool& pool) {
  while (!posted_queue_.empty()) pool.give_back(posted_queue_.pop());
  matched_ = false;
}

// ---- the ring: begin_frame() has checked that whatever is written fits --------------------------

size_t ReceiveSide::ring_span(uint64_t from, uint64_t count, std::span<iovec> out) const {
  const uint64_t start = from % kEagerBytes;
  const uint64_t straight = std::min(count, kEagerBytes - start);
  size_t used = 0;
  if (straight > 0) out[used++] = {ring_.get() + start, static_cast<size_t>(straight)};
  if (count > straight) out[used++] = {ring_.get(), static_cast<size_t>(count - straight)};
  return used;
}

void ReceiveSide::ring_write(const void* source, uint64_t count) {
  if (ring_ == nullptr) ring_ = std::make_unique_for_overwrite<std::byte[]>(kEagerBytes);
  iovec parts[2];
  const size_t used = ring_span(ring_tail_, count, parts);
  const auto* from = static_cast<const std::byte*>(source);
  for (size_t i = 0; i < used; ++i) {
    std::memcpy(parts[i].iov_base, from, parts[i].iov_len);
    from += parts[i].iov_len;
  }
  ring_tail_ += count;
}

void ReceiveSide::ring_read(void* target, uint64_t count) {
  iovec parts[2];
  const size_t used = ring_span(ring_head_, count, parts);
  auto* to = static_cast<std::byte*>(target);
  for (size_t i = 0; i < used; ++i) {
    std::memcpy(to, parts[i].iov_base, parts[i].iov_len);
    to += parts[i].iov_len;
  }
  ring_head_ += count;
}

}  // namespace tutti::transport::stream
