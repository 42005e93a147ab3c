#include "src/transport/stream/exchange.h"

#include <cstdio>
#include <optional>
#include <utility>

#include "src/base/readable_copy.h"

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

Status unplaceable() {
  return Status::internal_error(
      "a message that no processor may touch has memory that its link's hardware does not know");
}

}  // namespace

FrameExchange::FrameExchange(int rank, int peer, PlacedMemory* memory, bool reads)
    : rank_(rank), peer_(peer), memory_(memory) {
  if (memory != nullptr) outbound_.place(reads);
}

// Null: the epoch is over, and what is asked for never happens. That is a mistake of this rank
// where a later epoch has begun; where it was ended, another thread may not know yet.
Channel* FrameExchange::use(transport::ChannelId id) {
  Channel* channel = channels_.use(id, [this](Channel& over) { retire(over); });
  if (channel == nullptr && !channels_.has_ended({id.communicator, id.epoch}) && !faulty()) {
    give_up(Status::internal_error("rank " + std::to_string(rank_) +
                                   " used an epoch that is over (" + channel_text(id) + ")"));
  }
  return channel;
}

void FrameExchange::retire(Channel& over) {
  outbound_.forget(over);
  inbound_.forget(over);
  over.out.drop_all(pool_);
  over.in.drop_all(pool_);
}

bool FrameExchange::may_place(std::span<const iovec> pieces) {
  places_.clear();
  for (const iovec& piece : pieces) {
    const auto place = memory_ == nullptr ? std::optional<KeyedPlace>()
                                          : memory_->place_of(piece.iov_base, piece.iov_len);
    if (!place) return false;
    places_.push_back(*place);
  }
  return true;
}

FrameExchange::Ticket FrameExchange::send(transport::ChannelId id, uint32_t signature,
                                          std::span<const transport::ConstBuffer> pieces,
                                          Carriage carriage) {
  const Ticket ticket = sent_.issue();
  Channel* channel = faulty() ? nullptr : use(id);
  if (channel == nullptr) return ticket;
  Message* message = pool_.take();
  message->ticket = ticket;
  message->signature = signature;
  for (const transport::ConstBuffer& piece : pieces) message->add_piece(piece.data, piece.bytes);
  message->only_placed = carriage == Carriage::kPlaced;
  if (message->only_placed && !may_place(message->pieces)) {
    pool_.give_back(message);
    return give_up(unplaceable()), ticket;
  }
  channel->out.push(message);
  outbound_.enlist(*channel);
  return ticket;
}

FrameExchange::Ticket FrameExchange::receive(transport::ChannelId id, uint32_t signature,
                                             std::span<const transport::Buffer> pieces,
                                             Carriage carriage) {
  const Ticket ticket = received_.issue();
  Channel* channel = faulty() ? nullptr : use(id);
  if (channel == nullptr) return ticket;
  Message* message = pool_.take();
  message->ticket = ticket;
  message->signature = signature;
  for (const transport::Buffer& piece : pieces) message->add_piece(piece.data, piece.bytes);
  message->only_placed = carriage == Carriage::kPlaced;
  if (message->only_placed && !may_place(message->pieces)) {
    pool_.give_back(message);
    return give_up(unplaceable()), ticket;
  }
  channel->in.post(message);
  if (channel->in.credit_due()) outbound_.owe_credit(*channel);
  urgent_ = urgent_ || channel->in.starving();
  if (memory_ != nullptr) aim(*channel, *message);
  inbound_.settle(*channel);
  conclude();
  return ticket;
}

// All of a message or nothing of it, so that the peer need not change between the two ways. A short
// one is not worth the words, unless it cannot come otherwise.
void FrameExchange::aim(const Channel& channel, const Message& posted) {
  constexpr size_t kMostPieces = 16;
  if (posted.complete()) return;
  if (!posted.only_placed) {
    if (posted.bytes < kPlacedBytes || posted.pieces.size() > kMostPieces) return;
    if (!may_place(posted.pieces)) return;
  }
  aimed_at_[channel.id.communicator] = channel.id.epoch;
  FrameHeader header;
  header.type = FrameType::kTarget;
  header.channel = channel.id;
  header.position = channel.in.last_position();
  for (size_t i = 0; i < posted.pieces.size(); ++i) {
    header.message_bytes = posted.pieces[i].iov_len;
    outbound_.push_control(header, &places_[i]);
    header.position += posted.pieces[i].iov_len;
  }
}

void FrameExchange::expose(transport::ChannelId id, const transport::Region& region) {
  std::optional<KeyedPlace> place;
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
  if (faulty()) return true;
  const transport::EpochId epoch{id.communicator, id.epoch};
  const bool may_be_written =
      memory_ != nullptr && channels_.has_ended(epoch) && !channels_.is_seen(epoch);
  return is_unwritten && !may_be_written && !outbound_.reads(id);
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
  if (outbound_.can_read(region, offset, target.bytes)) {
    request->is_read = true;
    request->ticket = ticket;
    request->add_piece(target.data, target.bytes);
    outbound_.push(request);
    return ticket;
  }
  request->asked = target.bytes;
  outbound_.push(request);
  Message* answer = pool_.take();
  answer->proves = outbound_.regions().note_get(region);
  answer->ticket = ticket;
  answer->id = region;
  answer->add_piece(target.data, target.bytes);
  regions_.await(answer);
  return ticket;
}

// ---- epochs -------------------------------------------------------------------------------------

Status FrameExchange::epoch_status(transport::EpochId epoch) const {
  const auto found = troubles_.find(epoch.communicator);
  const bool has = found != troubles_.end() && found->second.epoch == epoch.epoch;
  return has ? found->second.status : Status();
}

void FrameExchange::prioritize(transport::EpochId epoch, transport::Priority priority) {
  if (faulty() || channels_.has_ended(epoch)) return;
  channels_.prioritize(epoch, priority,
                       [&](Channel& channel) { outbound_.relist(channel, priority); });
}

void FrameExchange::end_epoch(transport::EpochId epoch) {
  if (faulty() || channels_.has_ended(epoch)) return;
  keep_output(epoch);
  if (faulty()) return;  // a source was no memory
  outbound_.drop(epoch);
  regions_.end(epoch);
  inbound_.forget(epoch);
  channels_.end(epoch, [this](Channel& over) {
    outbound_.tell_last(over);
    retire(over);
  });
  FrameHeader over;
  over.type = FrameType::kOver;
  over.channel = {epoch.communicator, epoch.epoch, 0};
  outbound_.push_control(over);
  troubles_.erase(epoch.communicator);
}

bool FrameExchange::has_let_go(transport::EpochId epoch) const {
  if (faulty()) return true;
  const auto aimed = aimed_at_.find(epoch.communicator);
  const bool has_targets = aimed != aimed_at_.end() && aimed->second == epoch.epoch;
  const bool is_written = has_targets && !channels_.is_seen(epoch);
  return !is_written && !outbound_.writes_of(epoch) && !reads_output(epoch);
}

bool FrameExchange::cut_off(transport::ChannelId id) {
  if (faulty()) return true;
  keep_output(id);
  outbound_.cut_off(id);
  return withdraw(id);
}

// ---- faults -------------------------------------------------------------------------------------

void FrameExchange::conclude() {
  for (const FoundMismatch& found : inbound_.take_mismatches()) note_mismatch(found);
  if (inbound_.fault() == nullptr || faulty()) return;
  give_up(Status::remote_error("rank " + std::to_string(peer_) + " sent rank " +
                               std::to_string(rank_) + " " + inbound_.fault() +
                               ": the connection is given up"));
}

// The first one of an epoch counts. The peer is told of what it sent, and says the same.
void FrameExchange::note_mismatch(const FoundMismatch& found) {
  Status status = Status::invalid_usage(describe(found));
  Trouble& trouble = troubles_[found.channel.communicator];
  const bool known = !trouble.status.ok() && trouble.epoch >= found.channel.epoch;
  if (!known) trouble = {found.channel.epoch, std::move(status)};
  if (!found.here) return;
  FrameHeader header;
  header.type = FrameType::kMismatch;
  header.channel = found.channel;
  header.signature = found.mismatch.sent_signature;
  header.message_bytes = found.mismatch.sent_bytes;
  header.expected_signature = found.mismatch.expected_signature;
  header.position = found.mismatch.expected_bytes;
  outbound_.push_control(header);
  urgent_ = true;
}

// A message that is half on the wire reads no memory of the caller's any more. The memory is the
// caller's from now on, also that of a region, which withdraw() says is done.
void FrameExchange::give_up(Status fault) {
  fault_ = std::move(fault);
  end_output();
}

std::string FrameExchange::describe(const FoundMismatch& found) const {
  const std::string sender = "rank " + std::to_string(found.here ? peer_ : rank_);
  const std::string receiver = "rank " + std::to_string(found.here ? rank_ : peer_);
  const Mismatch& both = found.mismatch;
  return sender + " sent " + std::to_string(both.sent_bytes) + " bytes where " + receiver +
         " expects " + std::to_string(both.expected_bytes) + " (signature sent " +
         hex(both.sent_signature) + ", expected " + hex(both.expected_signature) + "; " +
         channel_text(found.channel) +
         "): the two ranks are in different calls, or in one call with different arguments";
}

// ---- bytes --------------------------------------------------------------------------------------

void ByteExchange::commit(size_t count) {
  if (!in_.commit(count) || inbound().has_found_mismatch()) conclude();
}

void ByteExchange::end_output() { out_.leave(); }

void ByteExchange::keep_output(transport::EpochId epoch) {
  const bool kept = out_.keep([&](const transport::ChannelId& id) { return epoch.has(id); });
  if (!kept) give_up(unreadable_source());
}

void ByteExchange::keep_output(transport::ChannelId region) {
  const bool kept = out_.keep([&](const transport::ChannelId& id) { return id == region; });
  if (!kept) give_up(unreadable_source());
}

}  // namespace tutti::transport::stream
