// One of the sockets of a link that has several: frames out, each whole or its rest later, and
// frames in. A frame is a header with the link's sequence, and its payload.
//
// Owns:    the socket, the rest of a frame that is half out, the frame that is coming in.
// Threads: one at a time.
// Errors:  those of the socket, and of bytes that no Tutti sends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/poll_set.h"
#include "src/base/status.h"
#include "src/transport/stream/message_pipe.h"

namespace tutti::transports::flows {

class FlowSocket {
 public:
  static constexpr uint32_t kMostPayload = 16 * 1024;

  explicit FlowSocket(KeptFd socket) : fd_(std::move(socket)) {}

  Status prepare(const PollSet& set, uint64_t tag);

  // ---- out
  /// A frame may begin: the kernel has sent most of what it was given, so that a flow that is slow
  /// gets little, and nothing is half out.
  bool has_room() const;
  size_t bytes_on_their_way() const;
  /// Only where there is room. True: all of it is with the kernel; else write_rest() says so.
  Result<bool> write(const transport::stream::CarriedFrame& frame);
  Result<bool> write_rest();
  bool is_half_out() const { return !rest_.empty(); }
  /// Wakes those who sleep on the set when there is room.
  void want_room(bool wants);
  /// Nothing is written any more; the peer sees the end behind what was.
  void end_output();

  // ---- in
  struct ComingFrame {
    uint64_t sequence = 0;
    std::span<const std::byte> header;
    std::span<const std::byte> payload;
  };
  /// The header of the next frame is here, with its sequence; nothing: not yet.
  Result<std::optional<uint64_t>> next_sequence();
  /// The whole of it, until drop_frame(); nothing: not yet.
  std::optional<ComingFrame> read_frame();
  void drop_frame();
  bool has_ended() const { return ended_; }
  /// Why it has, where the peer has not said so.
  const Status& error() const { return error_; }
  /// Nothing is read for now, though there is something.
  void park(bool parked);

 private:
  using FrameHeader = transport::stream::FrameHeader;
  static constexpr size_t kHeader = transport::stream::kSequencedHeaderBytes;

  bool read_up_to(size_t bytes);
  void listen();

  PolledFd fd_;
  const PollSet* set_ = nullptr;
  uint64_t tag_ = 0;
  uint32_t heard_ = 0;  // events that wake
  bool wants_room_ = false;
  bool parked_ = false;
  std::vector<std::byte> rest_;
  size_t rest_done_ = 0;

  std::vector<std::byte> in_ = std::vector<std::byte>(kHeader + kMostPayload);
  size_t have_ = 0;
  uint32_t length_ = 0;    // of the payload, once the header is here
  uint64_t sequence_ = 0;  // likewise
  bool ended_ = false;
  Status error_;
};

}  // namespace tutti::transports::flows
