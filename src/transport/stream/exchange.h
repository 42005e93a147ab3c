// The protocol of one link without what carries it: messages and grants in, frames out, and the
// reverse. Two of these, joined by any pipe, behave as two ranks do.
//
// A ByteExchange is for a pipe that keeps bytes in order; a MessageExchange (message_pipe.h) for
// one that carries frame by frame, perhaps in disorder, or even writes into the peer's memory.
//
// Owns:    channels, message records. The bytes stay the caller's until the ticket is done.
// Threads: sent() and received() are lock-free where the answer allows; the rest under the stream's
//          mutex.
// Errors:  fault_status() once what came, or receive(), has found one; nothing moves after that.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/transport/stream/byte_pipe.h"
#include "src/transport/stream/inbound.h"
#include "src/transport/transport.h"

namespace tutti::transport::stream {

/// The memory that the peer's transport may write to by itself.
class PlacedMemory {
 public:
  virtual ~PlacedMemory() = default;
  /// Nothing: it cannot write there.
  virtual std::optional<KeyedPlace> place_of(const void* memory, uint64_t bytes) = 0;
};

class FrameExchange {
 public:
  using Ticket = transport::Stream::Ticket;

  virtual ~FrameExchange() = default;
  FrameExchange(const FrameExchange&) = delete;
  FrameExchange& operator=(const FrameExchange&) = delete;

  /// kPlaced: no processor touches the bytes (transport::Stream::send_placed()).
  enum class Carriage : uint8_t { kAny, kPlaced };
  Ticket send(transport::ChannelId channel, uint32_t signature,
              std::span<const transport::ConstBuffer> pieces, Carriage carriage = Carriage::kAny);
  Ticket receive(transport::ChannelId channel, uint32_t signature,
                 std::span<const transport::Buffer> pieces, Carriage carriage = Carriage::kAny);

  void tell(transport::ChannelId channel, const transport::Note& note);
  uint64_t heard(transport::ChannelId channel, transport::Note& note) const;
  void on_note(std::function<void(transport::ChannelId)> hook) {
    inbound_.on_note(std::move(hook));
  }

  // One-sided (transport::OneSided).
  void expose(transport::ChannelId id, const transport::Region& region);
  bool withdraw(transport::ChannelId id);
  bool cut_off(transport::ChannelId id);
  Ticket put(transport::ChannelId region, uint64_t offset, transport::ConstBuffer source,
             uint32_t signal);
  Ticket get(transport::ChannelId region, uint64_t offset, transport::Buffer target);
  bool refused(transport::ChannelId region) const { return regions_.refused(region); }
  bool has_answers() const { return outbound_.answers() > 0; }

  // Epochs (transport::Stream).
  Status epoch_status(transport::EpochId epoch) const;
  void prioritize(transport::EpochId epoch, transport::Priority priority);
  void end_epoch(transport::EpochId epoch);
  bool has_let_go(transport::EpochId epoch) const;

  const TicketWindow& sent() const { return sent_; }
  const TicketWindow& received() const { return received_; }

  /// The peer waits for a grant: worth a system call of its own.
  bool urgent() const { return urgent_; }
  void flushed() { urgent_ = false; }

  /// Nothing new from here on but notes that were told before, and nothing that comes in may be
  /// given to it: the targets of receives are going. Sources are read for the last time.
  void leave() { end_output(); }

  bool faulty() const { return !fault_.ok(); }
  const Status& fault_status() const { return fault_; }

 protected:
  /// `memory`: null where the pipe does not write into memory of the peer. `reads`: it reads it,
  /// too.
  FrameExchange(int rank, int peer, PlacedMemory* memory, bool reads = false);
  virtual void end_output() = 0;  // leave()
  /// The pipe reads no memory of this epoch's messages, or of this region, any more; at once, or
  /// when reads_output() says so.
  virtual void keep_output(transport::EpochId epoch) = 0;
  virtual void keep_output(transport::ChannelId region) = 0;
  virtual bool reads_output(transport::EpochId epoch) const = 0;
  /// Acts on what was found wrong with what came.
  void conclude();
  void give_up(Status fault);

  Outbound& outbound() { return outbound_; }
  const Outbound& outbound() const { return outbound_; }
  Inbound& inbound() { return inbound_; }

 private:
  Channel* use(transport::ChannelId id);
  void retire(Channel& over);
  bool may_place(std::span<const iovec> pieces);
  void aim(const Channel& channel, const Message& posted);
  void note_mismatch(const FoundMismatch& found);
  std::string describe(const FoundMismatch& found) const;

  struct Trouble {
    uint32_t epoch = 0;
    Status status;
  };

  const int rank_;
  const int peer_;
  PlacedMemory* const memory_;
  ChannelTable channels_;
  MessagePool pool_;
  TicketWindow sent_;
  TicketWindow received_;
  Outbound outbound_{pool_, sent_, received_};
  Regions regions_{outbound_, pool_, received_};
  Inbound inbound_{channels_, regions_, outbound_, pool_, received_};
  std::vector<KeyedPlace> places_;         // of a receive that is being posted
  std::map<uint64_t, Trouble> troubles_;   // by communicator
  std::map<uint64_t, uint32_t> aimed_at_;  // by communicator: its last epoch that has targets here
  bool urgent_ = false;
  Status fault_;
};

/// Over a pipe that keeps bytes in order.
class ByteExchange final : public FrameExchange {
 public:
  ByteExchange(int rank, int peer) : FrameExchange(rank, peer, nullptr) {}

  // The bytes to write next, and the count of those that were written.
  std::span<const iovec> gather() { return out_.gather(); }
  void wrote(size_t count) { out_.wrote(count); }
  bool idle() const { return out_.idle(); }
  bool is_urgent() const { return out_.is_urgent(); }
  bool is_within_frame() const { return out_.is_within_frame(); }
  std::span<const iovec> gather_frame() { return out_.gather_frame(); }

  // Where to read to, and how much was read.
  size_t prepare(std::span<iovec> out) { return in_.prepare(out); }
  void commit(size_t count);

 private:
  void end_output() override;
  void keep_output(transport::EpochId epoch) override;
  void keep_output(transport::ChannelId region) override;
  bool reads_output(transport::EpochId) const override { return false; }

  BytesOut out_{outbound()};
  BytesIn in_{inbound()};
};

}  // namespace tutti::transport::stream
