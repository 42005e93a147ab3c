#include "src/transport/stream/exchange.h"

#include <array>
#include <cstdio>
#include <utility>

namespace tutti::transport::stream {
namespace {

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string channel_text(const transport::ChannelId& id) {
  return "communicator " + hex(id.communicator) + ", epoch " + std::to_string(id.epoch) +
         ", lane " + std::to_string(id.lane);
}

}  // namespace

FrameExchange::FrameExchange(int rank, int peer, PlacedMemory* memory)
    : rank_(rank), peer_(peer), memory_(memory) {
  if (memory != nullptr) outbound_.place();
}

Channel* FrameExchange::use(transport::ChannelId id) {
  Channel* channel = channels_.use(id, [this](Channel& over) {
    outbound_.forget(over);
    inbound_.forget(over);
    over.out.drop_all(pool_);
    over.in.drop_all(pool_);
  });
  if (channel == nullptr && !faulty()) {
    give_up(Status::internal_error("rank " + std::to_string(rank_) +
                                   " used an epoch that is over (" + channel_text(id) + ")"));
  }
  return channel;
}

FrameExchange::Ticket FrameExchange::send(transport::ChannelId id, uint32_t signature,
                                          std::span<const transport::ConstBuffer> pieces) {
  const Ticket ticket = sent_.issue();
  Channel* channel = faulty() ? nullptr : use(id);
  if (channel == nullptr) return ticket;
  Message* message = pool_.take();
  message->ticket = ticket;
  message->signature = signature;
  for (const transport::ConstBuffer& piece : pieces) message->add_piece(piece.data, piece.bytes);
  channel->out.push(message);
  outbound_.enlist(*channel);
  return ticket;
}

FrameExchange::Ticket FrameExchange::receive(transport::ChannelId id, uint32_t signature,
                                             std::span<const transport::Buffer> pieces) {
  const Ticket ticket = received_.issue();
  Channel* channel = faulty() ? nullptr : use(id);
  if (channel == nullptr) return ticket;
  Message* message = pool_.take();
  message->ticket = ticket;
  message->signature = signature;
  for (const transport::Buffer& piece : pieces) message->add_piece(piece.data, piece.bytes);
  channel->in.post(message);
  if (channel->in.credit_due()) outbound_.owe_credit(*channel);
  urgent_ = urgent_ || channel->in.starving();
  if (memory_ != nullptr) aim(*channel, *message);
  inbound_.settle(*channel);
  conclude();
  return ticket;
}

// All of a message or nothing of it, so that the peer need not change between the two ways.
void FrameExchange::aim(const Channel& channel, const Message& posted) {
  constexpr size_t kMostPieces = 16;
  if (posted.bytes < kPlacedBytes || posted.complete()) return;
  if (posted.pieces.size() > kMostPieces) return;
  std::array<MemoryPlace, kMostPieces> places;
  for (size_t i = 0; i < posted.pieces.size(); ++i) {
    const auto place = memory_->place_of(posted.pieces[i].iov_base, posted.pieces[i].iov_len);
    if (!place) return;
    places[i] = *place;
  }
  FrameHeader header;
  header.type = FrameType::kTarget;
  header.channel = channel.id;
  header.position = channel.in.last_position();
  for (size_t i = 0; i < posted.pieces.size(); ++i) {
    header.message_bytes = posted.pieces[i].iov_len;
    outbound_.push_control(header, &places[i]);
    header.position += posted.pieces[i].iov_len;
  }
}

void FrameExchange::expose(transport::ChannelId id, const transport::Region& region) {
  std::optional<MemoryPlace> place;
  if (memory_ != nullptr) place = memory_->place_of(region.memory, region.bytes);
  regions_.expose(id, region, place ? &*place : nullptr);
}

void FrameExchange::tell(transport::ChannelId id, const transport::Note& note) {
  Channel* channel = faulty() ? nullptr : use(id);
  if (channel == nullptr) return;
  channel->told = note;
  outbound_.owe_note(*channel);
}

uint64_t FrameExchange::heard(transport::ChannelId id, transport::Note& note) const {
  const Channel* channel = channels_.look(id);
  if (channel == nullptr) return 0;
  note = channel->heard;
  return channel->notes_heard;
}

bool FrameExchange::withdraw(transport::ChannelId id) {
  const bool is_unwritten = regions_.withdraw(id);
  inbound_.forget(id);
  return faulty() || (is_unwritten && !outbound_.reads(id));
}

FrameExchange::Ticket FrameExchange::put(transport::ChannelId region, uint64_t offset,
                                         transport::ConstBuffer source, uint32_t signal) {
  const Ticket ticket = sent_.issue();
  if (faulty()) return ticket;
  Message* message = pool_.take();
  message->type = FrameType::kPut;
  message->ticket = ticket;
  message->id = region;
  message->place = offset;
  message->signature = signal;
  message->add_piece(source.data, source.bytes);
  outbound_.push(message);
  return ticket;
}

FrameExchange::Ticket FrameExchange::get(transport::ChannelId region, uint64_t offset,
                                         transport::Buffer target) {
  const Ticket ticket = received_.issue();
  if (faulty()) return ticket;
  Message* request = pool_.take();
  request->type = FrameType::kGet;
  request->id = region;
  request->place = offset;
  request->asked = target.bytes;
  outbound_.push(request);
  Message* answer = pool_.take();
  answer->ticket = ticket;
  answer->id = region;
  answer->add_piece(target.data, target.bytes);
  regions_.await(answer);
  return ticket;
}

void ByteExchange::commit(size_t count) {
  if (!in_.commit(count)) conclude();
}

void ByteExchange::end_output(const FrameHeader* last) {
  if (last != nullptr) {
    out_.farewell(*last);
  } else {
    out_.leave();
  }
}

void FrameExchange::conclude() {
  const Fault& fault = inbound_.fault();
  if (fault.kind == Fault::FaultKind::kNone || faulty()) return;
  if (fault.kind == Fault::FaultKind::kMalformed) {
    return give_up(Status::remote_error("rank " + std::to_string(peer_) + " sent rank " +
                                        std::to_string(rank_) + " " + fault.what +
                                        ": the connection is given up"));
  }
  const Status mismatch = Status::invalid_usage(describe(fault));
  if (fault.kind == Fault::FaultKind::kMismatchThere) return give_up(mismatch);
  FrameHeader last;
  last.type = FrameType::kMismatch;
  last.channel = fault.channel;
  last.signature = fault.mismatch.sent_signature;
  last.message_bytes = fault.mismatch.sent_bytes;
  last.expected_signature = fault.mismatch.expected_signature;
  last.position = fault.mismatch.expected_bytes;
  end_output(&last);
  give_up(mismatch);
}

// A message that is half on the wire reads no memory of the caller's any more. The memory is the
// caller's from now on, also that of a region, which withdraw() says is done.
void FrameExchange::give_up(Status fault) {
  fault_ = std::move(fault);
  end_output(nullptr);
}

std::string FrameExchange::describe(const Fault& fault) const {
  const bool here = fault.kind == Fault::FaultKind::kMismatchHere;
  const std::string sender = "rank " + std::to_string(here ? peer_ : rank_);
  const std::string receiver = "rank " + std::to_string(here ? rank_ : peer_);
  const Mismatch& found = fault.mismatch;
  return sender + " sent " + std::to_string(found.sent_bytes) + " bytes where " + receiver +
         " expects " + std::to_string(found.expected_bytes) + " (signature sent " +
         hex(found.sent_signature) + ", expected " + hex(found.expected_signature) + "; " +
         channel_text(fault.channel) +
         "): the two ranks are in different calls, or in one call with different arguments";
}

}  // namespace tutti::transport::stream
