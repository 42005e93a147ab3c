#include "src/transport/stream/message.h"

#include <algorithm>
#include <cstring>

namespace tutti::transport::stream {

void Message::add_piece(const void* data, size_t piece_bytes) {
  if (piece_bytes == 0) return;
  pieces.push_back({const_cast<void*>(data), piece_bytes});
  bytes += piece_bytes;
}

size_t Message::view(std::span<iovec> out, uint64_t limit) const {
  size_t used = 0;
  size_t skip = offset;
  for (size_t i = piece; i < pieces.size() && used < out.size() && limit > 0; ++i) {
    const auto length = static_cast<size_t>(std::min<uint64_t>(pieces[i].iov_len - skip, limit));
    out[used++] = {static_cast<std::byte*>(pieces[i].iov_base) + skip, length};
    limit -= length;
    skip = 0;
  }
  return used;
}

void Message::drop() {
  dropped = true;
  ticket = 0;
  pieces.clear();
}

void Message::advance(uint64_t count) {
  moved += count;
  if (dropped) return;
  while (count > 0) {
    const uint64_t here = pieces[piece].iov_len - offset;
    if (count < here) {
      offset += static_cast<size_t>(count);
      return;
    }
    count -= here;
    ++piece;
    offset = 0;
  }
}

void Message::fill(const std::byte* source, uint64_t count) {
  if (dropped) {
    moved += count;
    return;
  }
  while (count > 0) {
    const iovec& target = pieces[piece];
    const auto here = static_cast<size_t>(std::min<uint64_t>(target.iov_len - offset, count));
    std::memcpy(static_cast<std::byte*>(target.iov_base) + offset, source, here);
    advance(here);
    source += here;
    count -= here;
  }
}

uint64_t total_bytes(std::span<const iovec> entries) {
  uint64_t sum = 0;
  for (const iovec& entry : entries) sum += entry.iov_len;
  return sum;
}

void MessageQueue::push(Message* message) {
  message->next = nullptr;
  (head_ == nullptr ? head_ : tail_->next) = message;
  tail_ = message;
}

Message* MessageQueue::pop() {
  Message* message = head_;
  head_ = message->next;
  return message;
}

Message* MessagePool::take() {
  if (free_ == nullptr) {
    all_.push_back(std::make_unique<Message>());
    return all_.back().get();
  }
  Message* message = free_;
  free_ = message->next;
  return message;
}

void MessagePool::abandon(Message* message) {
  if (message->flights == 0) return give_back(message);
  message->ticket = 0;
  message->bytes = message->moved;
}

void MessagePool::give_back(Message* message) {
  constexpr size_t kPiecesWorthKeeping = 256;
  if (message->pieces.capacity() > kPiecesWorthKeeping) std::vector<iovec>().swap(message->pieces);
  message->pieces.clear();
  message->type = FrameType::kData;
  message->ticket = 0;
  message->bytes = 0;
  message->moved = 0;
  message->flights = 0;
  message->is_read = message->proves = message->only_placed = false;
  message->dropped = false;
  message->piece = 0;
  message->offset = 0;
  message->next = free_;
  free_ = message;
}

}  // namespace tutti::transport::stream
