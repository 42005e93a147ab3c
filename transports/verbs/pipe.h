// Frames between two ranks over queue pairs of RDMA cards (ControlLanes), and writes into
// registered memory of the peer and reads of it (DataFlows): one link's pipe.
//
// Pairs run between the ports of the two ends, the i-th between port i of each, counted round. One
// that fails is closed at both ends, which tell each other so on the socket on which they have
// proved themselves, and the others go on; where a card had no answer and the peer's end was well,
// all pairs between these two ports fail. When no pair for frames, or none for writes, is left, the
// link ends. The socket also tells at once that the other process has died, whatever the cards try.
//
// Owns:    everything but the domains, which it shares.
// Threads: one at a time (MessageLink's mutex).
// Errors:  those of poll(): the first one stays.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/poll_set.h"
#include "src/transport/stream/message_link.h"
#include "transports/tcp/peer_socket.h"
#include "transports/verbs/control.h"
#include "transports/verbs/flows.h"
#include "transports/verbs/hello.h"
#include "transports/verbs/lane.h"
#include "transports/verbs/registered_ranges.h"

namespace tutti::transports::verbs {

/// Where peers may write, and what they may read: memory that is registered.
class PlacedRanges final : public transport::stream::PlacedMemory {
 public:
  explicit PlacedRanges(std::shared_ptr<RegisteredRanges> ranges) : ranges_(std::move(ranges)) {}
  std::optional<transport::stream::KeyedPlace> place_of(const void* memory,
                                                        uint64_t bytes) override;

 private:
  const std::shared_ptr<RegisteredRanges> ranges_;
};

class VerbsPipe final : public transport::stream::MessagePipe {
 public:
  /// Both ends call this with the two ends of a socket on which they have proved themselves.
  static Result<std::unique_ptr<VerbsPipe>> open(const PipeGround& ground, const FlowShape& wish,
                                                 tcp::PeerSocket socket,
                                                 const WaitLimit& wait_limit);
  ~VerbsPipe() override;

  uint64_t payload_limit() const override { return ControlLanes::kPayloadBytes; }
  bool send(const transport::stream::CarriedFrame& frame) override;
  bool write(const transport::stream::CarriedWrite& write) override;
  bool reads_memory() const override { return true; }
  uint64_t write_limit() const override { return data_->write_limit(); }
  uint64_t one_sided_limit() const override { return DataFlows::one_sided_limit(); }
  transport::stream::PlacedMemory* memory() override { return &placed_; }
  Status poll(transport::stream::PipeEvents& events) override;
  void end() override;
  bool has_delivered() const override;
  int descriptor() const override { return set_->fd(); }

 private:
  VerbsPipe(const PipeGround& ground, tcp::PeerSocket socket)
      : ground_(ground), placed_(ground.ranges), socket_(std::move(socket)) {}

  Status meet(const FlowShape& wish, const WaitLimit& wait_limit);
  Status make_lanes(const PortsHello& theirs, const FlowShape& shape);
  Status make_rails(const std::vector<PairLane::LanePath>& paths, const FlowShape& shape);
  Status watch();
  std::span<PairLane> data_lanes() { return std::span(lanes_).subspan(controls_); }

  Result<bool> take_some(transport::stream::PipeEvents& events);
  Status complete(const api::ibv_wc& found, transport::stream::PipeEvents& events);
  Status receive(const api::ibv_wc& found, transport::stream::PipeEvents& events);
  Status look_around(transport::stream::PipeEvents& events);

  Status hear();
  Status go_on_without(transport::stream::PipeEvents& events);
  Status settle(size_t number, transport::stream::PipeEvents& events);
  Status check_what_is_left() const;
  Status explain(const PairLane& lane, const api::ibv_wc& found) const;
  void break_off(Status status);

  const PipeGround ground_;
  PlacedRanges placed_;
  tcp::PeerSocket socket_;
  std::unique_ptr<PollSet> set_;
  std::vector<Rail> rails_;
  std::vector<PairLane> lanes_;  // those for frames first
  size_t controls_ = 0;
  std::unique_ptr<ControlLanes> control_;
  std::unique_ptr<DataFlows> data_;
  LaneWords words_;
  std::vector<std::optional<ClosedLane>> closed_there_;  // by lane: the peer has closed it

  std::vector<uint64_t> carried_;  // frames that were copied, to be reported
  uint32_t idle_polls_ = 0;
  bool ended_ = false;
  bool peer_ended_ = false;
  Status broken_;
};

}  // namespace tutti::transports::verbs
