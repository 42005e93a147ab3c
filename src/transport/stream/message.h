// One message under way and how far it got; queues of them; the pool they come from.
//
// Owns: the pool owns every message, queues only link them. The bytes are the caller's. Threads:
// under the stream's mutex. A recycled message keeps its piece list, so that the steady state
// allocates nothing.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/transport/stream/frame.h"

namespace tutti::transport::stream {

struct Message {
  FrameType type = FrameType::kData;
  uint64_t ticket = 0;      // 0: nobody asks
  uint32_t signature = 0;   // of its last frame
  transport::ChannelId id;  // one-sided: the region
  uint64_t place = 0;       // one-sided: where in the region
  uint64_t asked = 0;       // bytes that a get asks for
  uint64_t bytes = 0;
  uint64_t moved = 0;
  uint32_t flights = 0;       // frames that a pipe has and may read it for
  std::vector<iovec> pieces;  // none is empty
  size_t piece = 0;           // the next byte to move is pieces[piece][offset]
  size_t offset = 0;
  bool is_read = false;      // a get that the transport makes by itself
  bool proves = false;       // a get: its answer says that puts before it have taken effect
  bool only_placed = false;  // no processor may touch its bytes
  bool dropped = false;      // bytes that come for it are counted and go nowhere
  Message* next = nullptr;

  void add_piece(const void* data, size_t piece_bytes);
  bool complete() const { return moved == bytes; }
  uint64_t left() const { return bytes - moved; }
  /// Lists the next bytes, at most `limit`, in at most out.size() entries; returns how many
  /// entries.
  size_t view(std::span<iovec> out, uint64_t limit) const;
  /// The next `count` bytes have moved.
  void advance(uint64_t count);
  /// Its memory is touched no more.
  void drop();
  /// Copies the next `count` bytes into the pieces.
  void fill(const std::byte* source, uint64_t count);
};

/// Bytes that a list of entries covers.
uint64_t total_bytes(std::span<const iovec> entries);

class MessagePool {
 public:
  Message* take();
  void give_back(Message* message);
  /// It ends with the frames that a pipe has, and nobody is told; at once if there are none.
  void abandon(Message* message);

 private:
  std::vector<std::unique_ptr<Message>> all_;
  Message* free_ = nullptr;
};

class MessageQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  Message* front() const { return head_; }
  void push(Message* message);
  Message* pop();
  /// Takes those out for which `which` is true, and abandons them.
  template <class Which>
  void remove_if(MessagePool& pool, Which which);

 private:
  Message* head_ = nullptr;
  Message* tail_ = nullptr;
};

template <class Which>
void MessageQueue::remove_if(MessagePool& pool, Which which) {
  MessageQueue kept;
  while (!empty()) {
    Message* message = pop();
    if (which(*message)) {
      pool.abandon(message);
    } else {
      kept.push(message);
    }
  }
  *this = kept;
}

}  // namespace tutti::transport::stream
