// Frames between two ranks over queue pairs of RDMA cards, and writes into registered memory of the
// peer (DataFlows): one link's pipe.
//
// Frames are sends on the control pair, copied into registered slots and out of them. A frame is
// sent only where the peer has a receive posted for it: the immediate value of every send says how
// many the sender has posted again. There are many small receives rather than few large ones: short
// messages that nobody has asked for leave though the peer does nothing. The socket on which both
// ends have proved themselves stays, so that the death of a process is noticed at once, whatever
// the cards try meanwhile.
//
// Owns:    everything but the domain, which it shares.
// Threads: one at a time (MessageLink's mutex).
// Errors:  those of poll(): the first one stays.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/patience.h"
#include "src/base/poll_set.h"
#include "src/transport/stream/message_link.h"
#include "transports/tcp/peer_socket.h"
#include "transports/verbs/flows.h"
#include "transports/verbs/hello.h"
#include "transports/verbs/queue_pair.h"

namespace tutti::transports::verbs {

/// Pages that the card reads and writes, and nobody else's.
class SlotMemory {
 public:
  static Result<std::unique_ptr<SlotMemory>> create(std::shared_ptr<Domain> domain, size_t slots);
  ~SlotMemory();
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

  static constexpr size_t kPayloadBytes = 4 * 1024;
  static constexpr size_t kSlotBytes = transport::stream::kSequencedHeaderBytes + kPayloadBytes;

  std::byte* at(size_t slot) const { return memory_ + slot * kSlotBytes; }
  /// The first bytes of a slot, for a work request.
  api::ibv_sge piece(size_t slot, size_t bytes) const;

 private:
  SlotMemory(std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* const memory_;
  const size_t bytes_;
  std::unique_ptr<CardMemory> registration_;
};

/// Where peers may write: memory that is registered.
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
  /// Frames that may be on their way in one direction.
  static constexpr uint32_t kSlots = 128;

  /// Both ends call this with the two ends of a socket on which they have proved themselves.
  static Result<std::unique_ptr<VerbsPipe>> open(std::shared_ptr<Domain> domain,
                                                 std::shared_ptr<RegisteredRanges> ranges,
                                                 tcp::PeerSocket socket, const Patience& patience);
  ~VerbsPipe() override;

  uint64_t payload_limit() const override { return SlotMemory::kPayloadBytes; }
  bool send(const transport::stream::CarriedFrame& frame) override;
  bool write(const transport::stream::CarriedWrite& write) override;
  transport::stream::PlacedMemory* memory() override { return &placed_; }
  Status poll(transport::stream::PipeEvents& events) override;
  void end() override;
  bool has_delivered() const override;
  int descriptor() const override { return set_->fd(); }

 private:
  VerbsPipe(std::shared_ptr<Domain> domain, std::shared_ptr<RegisteredRanges> ranges,
            tcp::PeerSocket socket)
      : domain_(std::move(domain)),
        ranges_(std::move(ranges)),
        placed_(ranges_),
        socket_(std::move(socket)) {}

  Status prepare();
  Status meet(const Patience& patience);
  Status post_receive(size_t slot);
  bool send_slot(uint64_t name, size_t bytes, uint32_t flags);
  Result<bool> take_some(transport::stream::PipeEvents& events);
  Status complete(const api::ibv_wc& found, transport::stream::PipeEvents& events);
  Status receive(const api::ibv_wc& found, transport::stream::PipeEvents& events);
  void grant_if_due();
  Status look_around(transport::stream::PipeEvents& events);
  Status explain(const api::ibv_wc& found) const;
  void break_off(Status status);

  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<RegisteredRanges> ranges_;
  PlacedRanges placed_;
  tcp::PeerSocket socket_;
  std::unique_ptr<PollSet> set_;
  std::unique_ptr<SlotMemory> memory_;
  std::unique_ptr<Completions> completions_;
  std::unique_ptr<QueuePair> control_;
  std::unique_ptr<DataFlows> flows_;

  std::vector<size_t> free_slots_;  // for sends
  std::vector<uint64_t> carried_;   // frames that were copied, to be reported
  uint32_t credit_ = 0;             // sends that the peer has receives for
  uint32_t owed_ = 0;               // receives that were posted again, and the peer does not know
  uint32_t in_flight_ = 0;          // sends
  uint32_t idle_polls_ = 0;
  bool ended_ = false;
  bool peer_ended_ = false;
  Status broken_;
};

}  // namespace tutti::transports::verbs
