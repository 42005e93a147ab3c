// The protocol of one link without its socket: messages and grants in, bytes out, and the reverse.
// Two of these, joined by any pipe that keeps bytes in order, behave as two ranks do.
//
// With several flows a link will have one Inbound and one Outbound for each, over the same
// channels and tickets; `position` in every frame already says where it belongs.
//
// Owns:    channels, message records, batches. The bytes stay the caller's until the ticket is
//          done.
// Threads: sent() and received() are lock-free where the answer allows; the rest under the stream's
//          mutex.
// Errors:  fault_status() once a commit() or receive() has found one; nothing moves after that.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.h"
#include "src/transport/stream/inbound.h"
#include "src/transport/transport.h"

namespace tutti::transport::stream {

class FrameExchange {
 public:
  using Ticket = transport::Stream::Ticket;

  FrameExchange(int rank, int peer) : rank_(rank), peer_(peer) {}

  Ticket send(transport::ChannelId channel, uint32_t signature,
              std::span<const transport::ConstBuffer> pieces);
  Ticket receive(transport::ChannelId channel, uint32_t signature,
                 std::span<const transport::Buffer> pieces);

  void tell(transport::ChannelId channel, const transport::Note& note);
  uint64_t heard(transport::ChannelId channel, transport::Note& note) const;
  void on_note(std::function<void(transport::ChannelId)> hook) {
    inbound_.on_note(std::move(hook));
  }

  // One-sided (transport::OneSided).
  void expose(transport::ChannelId id, const transport::Region& region) {
    regions_.expose(id, region);
  }
  bool withdraw(transport::ChannelId id);
  Ticket put(transport::ChannelId region, uint64_t offset, transport::ConstBuffer source,
             uint32_t signal);
  Ticket get(transport::ChannelId region, uint64_t offset, transport::Buffer target);
  bool refused(transport::ChannelId region) const { return regions_.refused(region); }
  bool has_answers() const { return outbound_.answers() > 0; }

  const TicketWindow& sent() const { return sent_; }
  const TicketWindow& received() const { return received_; }

  // The bytes to write next, and the count of those that were written.
  std::span<const iovec> gather() { return outbound_.gather(); }
  void wrote(size_t count) { outbound_.wrote(count); }
  bool idle() const { return outbound_.idle(); }
  /// The peer waits for a grant: worth a system call of its own.
  bool urgent() const { return urgent_; }
  void flushed() { urgent_ = false; }

  /// Outbound::leave(). Nothing that comes in from now on may be given to commit(): the targets of
  /// receives are going.
  void leave() { outbound_.leave(); }

  // Where to read to, and how much was read.
  size_t prepare(std::span<iovec> out) { return inbound_.prepare(out); }
  void commit(size_t count);

  bool faulty() const { return !fault_.ok(); }
  const Status& fault_status() const { return fault_; }

 private:
  Channel* use(transport::ChannelId id);
  void conclude();
  void give_up(Status fault);
  std::string describe(const Fault& fault) const;

  const int rank_;
  const int peer_;
  ChannelTable channels_;
  MessagePool pool_;
  TicketWindow sent_;
  TicketWindow received_;
  Outbound outbound_{pool_, sent_};
  Regions regions_{outbound_, pool_, received_};
  Inbound inbound_{channels_, regions_, outbound_, pool_, received_};
  bool urgent_ = false;
  Status fault_;
};

}  // namespace tutti::transport::stream
