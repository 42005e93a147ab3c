// Frames between two ranks over several sockets at once: one link's pipe.
//
// Over a far or lossy network a socket carries what its congestion window lets through, and a loss
// stops it for a round trip; several of them add up, and a loss on one does not stop the others. A
// frame goes to the flow with the fewest bytes on their way, of those that have little to send.
// Frames that come out of turn are kept by MessageExchange, in bounds: a flow whose next frame is
// too far ahead is left unread until the gap before it has closed.
//
// The socket on which both ends have proved themselves stays beside the flows, and says nothing.
//
// Owns:    the sockets.
// Threads: one at a time (MessageLink's mutex).
// Errors:  those of poll(): the first one stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/poll_set.h"
#include "src/transport/stream/message_link.h"
#include "transports/flows/flow.h"
#include "transports/tcp/peer_socket.h"

namespace tutti::transports::flows {

class FlowsPipe final : public transport::stream::MessagePipe {
 public:
  /// In bounds of MessageExchange's own, beyond which it gives the link up.
  static constexpr uint64_t kMostAhead = transport::stream::MessageExchange::kMostEarly / 2;
  static constexpr uint64_t kMostAheadBytes =
      transport::stream::MessageExchange::kMostEarlyBytes / 2;

  /// `sockets`: the flows, in one order on both ends.
  static Result<std::unique_ptr<FlowsPipe>> open(tcp::PeerSocket socket,
                                                 std::vector<KeptFd> sockets);

  uint64_t payload_limit() const override { return FlowSocket::kMostPayload; }
  bool send(const transport::stream::CarriedFrame& frame) override;
  bool copies_frames() const override { return true; }
  Status poll(transport::stream::PipeEvents& events) override;
  void end() override;
  bool has_delivered() const override;
  int descriptor() const override { return set_->fd(); }

 private:
  struct NumberedFlow {
    FlowSocket flow;
    std::vector<uint64_t> half_out;  // the name of the frame, if there is one
  };

  explicit FlowsPipe(tcp::PeerSocket socket) : socket_(std::move(socket)) {}

  NumberedFlow* best_flow();
  Status move(transport::stream::PipeEvents& events, bool& moved);
  void write_rest(NumberedFlow& one, bool& moved);
  Status read(FlowSocket& flow, transport::stream::PipeEvents& events, bool& moved);
  bool is_too_far(uint64_t sequence) const;
  void count(uint64_t sequence, uint64_t bytes);
  Status unpark(transport::stream::PipeEvents& events, bool& moved);
  bool has_peer_ended() const;
  void break_off(Status status);

  tcp::PeerSocket socket_;
  std::unique_ptr<PollSet> set_;
  std::vector<NumberedFlow> flows_;
  std::vector<uint64_t> carried_;  // names of frames that have left, to be reported
  bool wants_room_ = false;        // the last frame found none

  uint64_t next_ = 0;                   // the first sequence that has not come
  std::map<uint64_t, uint64_t> ahead_;  // that have come behind it, and their bytes
  uint64_t ahead_bytes_ = 0;
  std::optional<uint64_t> parked_at_;  // next_, when flows were left unread; nothing: none is

  uint32_t idle_polls_ = 0;
  bool ended_ = false;
  Status lost_;  // nothing can be written any more, but what has come is read first
  Status broken_;
};

}  // namespace tutti::transports::flows
