// One connected socket, and the state of its two directions. A connection (connection.h) has one at
// a time; links that have ended on an earlier one keep that until all that they had begun is sent.
//
// Owns: the socket. Threads: under the mutex of its connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "src/base/fork.h"
#include "src/transport/door/handshake.h"

namespace tutti::transports::tcp {

class TcpLink;

struct Wire {
  static constexpr size_t kBufferBytes = 16 * 1024;

  Wire(KeptFd connected, const transport::door::Binding& named)
      : socket(std::move(connected)), binding(named) {}

  const KeptFd socket;
  const transport::door::Binding binding;

  // Out: lease frames, and the last words of links that have ended; then links in their turn.
  std::vector<std::byte> words;
  size_t said = 0;             // bytes of `words` that are written
  TcpLink* used = nullptr;     // the link of frames that may follow `words` without a USE
  TcpLink* writing = nullptr;  // a batch of it is half written, so nothing else may come between
  bool output_full = false;    // the kernel takes no more for now
  bool output_dead = false;    // why is found by reading what the peer said last
  bool closing = false;        // no link uses it any more; it is shut down when all is sent
  bool lost = false;           // neither direction works any more

  // In.
  std::array<std::byte, kBufferBytes> buffer;
  size_t begin = 0;  // [begin, end) was read and is not parsed yet
  size_t end = 0;
  uint64_t frame_left = 0;    // bytes of the frame that arrives now
  TcpLink* target = nullptr;  // the link of that frame; null: it is discarded
  TcpLink* named = nullptr;   // the link of the next frames, as the last USE said

  bool has_words() const { return said < words.size(); }
  void say(std::span<const std::byte> bytes) {
    if (!has_words()) {
      words.clear();
      said = 0;
    }
    words.insert(words.end(), bytes.begin(), bytes.end());
  }
};

}  // namespace tutti::transports::tcp
