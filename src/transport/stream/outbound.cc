#include "src/transport/stream/outbound.h"

#include <algorithm>
#include <utility>

namespace tutti::transport::stream {
namespace {

bool is_answer(const Message& message) {
  return message.type == FrameType::kAnswer || message.type == FrameType::kRefused;
}

/// Of the next `length` bytes of a one-sided message.
FrameHeader one_sided_header(const Message& message, uint64_t length) {
  const bool put = message.type == FrameType::kPut;
  const bool answer = message.type == FrameType::kAnswer;
  const bool last = message.moved + length == message.bytes;
  FrameHeader header;
  header.type = message.type;
  header.length = static_cast<uint32_t>(length);
  header.channel = message.id;
  header.signature = put && !last ? transport::OneSided::kNoSignal : message.signature;
  header.message_bytes = put ? length : answer ? message.bytes : message.asked;
  header.position = answer ? message.moved : message.place + message.moved;
  return header;
}

FrameHeader note_of(const Channel& channel) {
  FrameHeader header;
  header.type = FrameType::kNote;
  header.channel = channel.id;
  header.signature = channel.told.small[0];
  header.expected_signature = channel.told.small[1];
  header.message_bytes = channel.told.large[0];
  header.position = channel.told.large[1];
  return header;
}

}  // namespace

// ---- lists of channels ------------------------------------------------------------------------

void Outbound::append(List& list, Channel& channel, Channel* Channel::*next) {
  channel.*next = nullptr;
  (list.head == nullptr ? list.head : list.tail->*next) = &channel;
  list.tail = &channel;
}

Channel* Outbound::take(List& list, Channel* Channel::*next) {
  Channel* channel = list.head;
  list.head = channel->*next;
  return channel;
}

void Outbound::remove(List& list, Channel& channel, Channel* Channel::*next) {
  List kept;
  while (list.head != nullptr) {
    Channel* other = take(list, next);
    if (other != &channel) append(kept, *other, next);
  }
  list = kept;
}

void Outbound::enlist(Channel& channel) {
  if (closed_ || channel.in_ready || !channel.out.sendable()) return;
  enlist_in_turn(channel);
}

// Bytes that go as a frame come behind those that were written, and the peer takes both in order.
void Outbound::enlist_in_turn(Channel& channel) {
  uint64_t rest = 0;
  const bool aimed = places_ && channel.out.target(rest) != nullptr;
  if (!aimed && channel.writes > 0) return;          // written() comes back to it
  if (!aimed && channel.out.needs_target()) return;  // so does the peer's TARGET
  channel.in_ready = true;
  append((aimed ? aimed_ : ready_)[class_of(channel)], channel, &Channel::next_ready);
}

void Outbound::owe_credit(Channel& channel) {
  if (closed_ || channel.in_credit) return;
  channel.in_credit = true;
  append(credit_[class_of(channel)], channel, &Channel::next_credit);
}

void Outbound::owe_note(Channel& channel) {
  if (closed_ || channel.in_note) return;
  channel.in_note = true;
  append(note_, channel, &Channel::next_note);
}

void Outbound::push_control(const FrameHeader& header, const KeyedPlace* place) {
  if (closed_) return;
  ControlFrame& frame = control_.emplace_back();
  frame.header = header;
  if (place != nullptr) frame.bytes = encode(*place, frame.payload.data());
  frame.header.length = static_cast<uint32_t>(frame.bytes);
}

void Outbound::tell_last(Channel& channel) {
  if (channel.in_note) push_control(note_of(channel));
}

void Outbound::push(Message* message) {
  if (closed_) return pool_.give_back(message);
  if (is_answer(*message)) answering_.push_back(message);
  if (places_ && message->type == FrameType::kPut && !place_of(*message)) {
    regions_.note_put(message->id);
  }
  one_sided_.push(message);
}

bool Outbound::reads(const transport::ChannelId& region) const {
  return std::any_of(answering_.begin(), answering_.end(), [&](const Message* message) {
    return message->type == FrameType::kAnswer && message->id == region;
  });
}

void Outbound::unlist(Channel& channel) {
  if (!std::exchange(channel.in_ready, false)) return;
  remove(ready_[class_of(channel)], channel, &Channel::next_ready);
  remove(aimed_[class_of(channel)], channel, &Channel::next_ready);
}

void Outbound::relist(Channel& channel, transport::Priority priority) {
  unlist(channel);
  const bool owes = std::exchange(channel.in_credit, false);
  if (owes) remove(credit_[class_of(channel)], channel, &Channel::next_credit);
  channel.priority = priority;
  if (owes) owe_credit(channel);
  enlist(channel);
}

void Outbound::forget(Channel& channel) {
  unlist(channel);
  if (channel.in_credit) remove(credit_[class_of(channel)], channel, &Channel::next_credit);
  if (channel.in_note) remove(note_, channel, &Channel::next_note);
  channel.in_credit = false;
  channel.in_note = false;
  writes_.drop(&channel);
}

// ---- frames -----------------------------------------------------------------------------------

bool Outbound::next(OutFrame& frame, std::span<iovec> room, uint64_t limit) {
  if (closed_) return false;
  frame.message = nullptr;
  frame.pieces = frame.control_bytes = 0;
  if (note_.head != nullptr) return next_note(frame), true;
  if (!control_.empty()) return next_control(frame), true;
  return next_of(kHigh, frame, room, limit) || next_of(kNormal, frame, room, limit);
}

bool Outbound::next_of(size_t priority, OutFrame& frame, std::span<iovec> room, uint64_t limit) {
  if (credit_[priority].head != nullptr) return next_credit(frame, credit_[priority]), true;
  const bool one_sided = priority == kNormal && may_send_one_sided();
  if (one_sided && (one_sided_is_next_ || ready_[priority].head == nullptr)) {
    one_sided_is_next_ = false;
    return next_one_sided(frame, room, limit), true;
  }
  Channel* channel = take_ready(priority);
  if (channel == nullptr) return false;
  one_sided_is_next_ = one_sided;
  return next_data(frame, *channel, room, limit), true;
}

bool Outbound::idle() const {
  for (size_t priority = 0; priority < transport::kPriorities; ++priority) {
    const bool none = ready_[priority].head == nullptr && aimed_[priority].head == nullptr &&
                      credit_[priority].head == nullptr;
    if (!none) return false;
  }
  return note_.head == nullptr && control_.empty() && one_sided_.empty();
}

// A target may have come since the channel was listed.
Channel* Outbound::take_ready(size_t priority) {
  while (ready_[priority].head != nullptr) {
    Channel* channel = take(ready_[priority], &Channel::next_ready);
    uint64_t rest = 0;
    if (!places_ || channel->out.target(rest) == nullptr) return channel;
    append(aimed_[priority], *channel, &Channel::next_ready);
  }
  return nullptr;
}

void Outbound::next_note(OutFrame& frame) {
  Channel* channel = take(note_, &Channel::next_note);
  channel->in_note = false;
  frame.header = note_of(*channel);
}

void Outbound::next_control(OutFrame& frame) {
  const ControlFrame& first = control_.front();
  frame.header = first.header;
  frame.control = first.payload;
  frame.control_bytes = first.bytes;
  control_.pop_front();
}

void Outbound::next_credit(OutFrame& frame, List& list) {
  Channel* channel = take(list, &Channel::next_credit);
  channel->in_credit = false;
  frame.header = FrameHeader();
  frame.header.type = FrameType::kCredit;
  frame.header.channel = channel->id;
  frame.header.position = channel->in.issue_grant();
}

void Outbound::next_data(OutFrame& frame, Channel& channel, std::span<iovec> room, uint64_t limit) {
  channel.in_ready = false;
  frame.message = channel.out.front();
  ++frame.message->flights;
  frame.pieces = frame.message->view(room, std::min(limit, channel.out.allowance()));
  const uint64_t length = total_bytes(room.first(frame.pieces));
  frame.header = channel.out.begin_frame(static_cast<uint32_t>(length));
  frame.header.channel = channel.id;
  enlist(channel);
}

// Frames of this queue are taken in order, and a put that is being written is one of them.
bool Outbound::may_send_one_sided() const {
  if (one_sided_.empty()) return false;
  if (!places_) return true;
  return !front_is_aimed() && !writes_.has_any(&one_sided_) && !writes_.has_any(&reads_);
}

void Outbound::next_one_sided(OutFrame& frame, std::span<iovec> room, uint64_t limit) {
  Message* message = one_sided_.front();
  frame.message = message;
  ++message->flights;
  frame.pieces = message->view(room, std::min<uint64_t>(limit, kMaxFrameBytes));
  const uint64_t length = total_bytes(room.first(frame.pieces));
  frame.header = one_sided_header(*message, length);
  message->advance(length);
  if (message->complete()) one_sided_.pop();
}

void Outbound::landed(Message* message) {
  if (message == nullptr || --message->flights > 0 || !message->complete()) return;
  if (message->ticket != 0) (message->is_read ? received_ : sent_).complete(message->ticket);
  if (is_answer(*message)) std::erase(answering_, message);
  pool_.give_back(message);
}

// ---- writes into the peer's memory --------------------------------------------------------------

bool Outbound::can_read(const transport::ChannelId& region, uint64_t offset, uint64_t bytes) const {
  return reads_ && bytes > 0 && regions_.is_settled(region) && regions_.find(region, offset, bytes);
}

// A read that has begun fills what it has begun with, and is done then.
bool Outbound::forget_region(const transport::ChannelId& region) {
  regions_.forget(region);
  bool any = false;
  MessageQueue kept;
  while (!one_sided_.empty()) {
    Message* const message = one_sided_.pop();
    if (!message->is_read || message->id != region) {
      kept.push(message);
      continue;
    }
    any = true;
    message->bytes = message->moved;
    ++message->flights;
    landed(message);
  }
  one_sided_ = kept;
  ending_.push_back(region);
  tell_ended();
  return any;
}

void Outbound::end_there(transport::EpochId epoch) {
  regions_.forget(epoch);
  over_.push_back(epoch);
  tell_ended();
}

void Outbound::tell_ended() {
  std::erase_if(over_, [&](const transport::EpochId& epoch) {
    if (writes_.has_any_in(epoch)) return false;
    FrameHeader header;
    header.type = FrameType::kOverSeen;
    header.channel = {epoch.communicator, epoch.epoch, 0};
    push_control(header);
    return true;
  });
  std::erase_if(ending_, [&](const transport::ChannelId& region) {
    if (writes_.has_any_to(region, &one_sided_)) return false;
    if (writes_.has_any_to(region, &reads_)) return false;
    FrameHeader header;
    header.type = FrameType::kWithdrawn;
    header.channel = region;
    push_control(header);
    return true;
  });
}

// A put that reaches beyond the region goes as frames, for the peer to refuse.
std::optional<KeyedPlace> Outbound::place_of(const Message& message) const {
  const bool put = message.type == FrameType::kPut && message.bytes >= kPlacedBytes;
  if (!put && !message.is_read) return std::nullopt;
  return regions_.find(message.id, message.place, message.bytes);
}

bool Outbound::front_is_aimed() const {
  return !one_sided_.empty() && place_of(*one_sided_.front()).has_value();
}

// Puts and gets take effect in order, so reads wait for the writes before them, and writes for
// reads.
bool Outbound::may_place_front() {
  if (!front_is_aimed()) return false;
  const bool read = one_sided_.front()->is_read;
  return !writes_.has_any(read ? PlacedWrites::Line(&one_sided_) : reads_line());
}

// The peer keeps what arrives of writes until it is told of them, so few may be ahead of the
// frames.
std::optional<PlacedWrite> Outbound::next_write(std::span<iovec> room, const WriteLimits& limits) {
  if (closed_ || writes_.full() || control_.size() >= PlacedWrites::kMost) return std::nullopt;
  for (List* list : {&aimed_[kHigh], &aimed_[kNormal]}) {
    if (list->head == nullptr) continue;
    Channel* channel = take(*list, &Channel::next_ready);
    channel->in_ready = false;
    return write_of(*channel, room, limits.message);
  }
  if (!may_place_front()) return std::nullopt;
  return write_of_put(room, limits.one_sided);
}

PlacedWrite Outbound::write_of(Channel& channel, std::span<iovec> room, uint64_t limit) {
  uint64_t rest = 0;
  const KeyedPlace place = *channel.out.target(rest);
  Message* message = channel.out.front();
  ++message->flights;
  const size_t pieces = message->view(room, std::min({limit, rest, channel.out.allowance()}));
  FrameHeader header =
      channel.out.begin_frame(static_cast<uint32_t>(total_bytes(room.first(pieces))));
  header.channel = channel.id;
  ++channel.writes;
  PlacedWrite write = writes_.begin(&channel, header, message);
  write.pieces = pieces;
  write.place = place;
  enlist(channel);
  return write;
}

PlacedWrite Outbound::write_of_put(std::span<iovec> room, uint64_t limit) {
  Message* message = one_sided_.front();
  KeyedPlace place = *place_of(*message);
  place.address += message->moved;
  ++message->flights;
  const size_t pieces = message->view(room, std::min<uint64_t>(limit, kMaxPlacedBytes));
  const uint64_t length = total_bytes(room.first(pieces));
  PlacedWrite write = writes_.begin(message->is_read ? reads_line() : &one_sided_,
                                    one_sided_header(*message, length), message);
  write.is_read = message->is_read;
  write.is_put = !message->is_read;
  write.pieces = pieces;
  write.place = place;
  message->advance(length);
  if (message->complete()) one_sided_.pop();
  return write;
}

bool Outbound::written(uint64_t write, uint32_t segments) {
  const PlacedWrites::EndedPlacement ended = writes_.end(write, segments);
  if (!ended.known) return false;
  for (const PlacedWrites::WrittenFrame& done : writes_.take_told()) {
    if (done.line != reads_line()) push_placed(done);
  }
  landed(ended.message);
  tell_ended();
  return true;
}

void Outbound::abandon(uint64_t write) {
  if (Message* const message = writes_.message_of(write); message != nullptr && message->is_read) {
    message->ticket = 0;
  }
  written(write, 0);
}

void Outbound::push_placed(const PlacedWrites::WrittenFrame& done) {
  ControlFrame frame;
  frame.header = done.header;
  const bool put = done.line == &one_sided_;
  const uint64_t bytes = done.line == nullptr ? 0 : done.bytes;
  frame.header.type = put ? FrameType::kPutPlaced : FrameType::kPlaced;
  frame.bytes = encode(PlacedBytes{bytes, done.number, done.segments}, frame.payload.data());
  frame.header.length = static_cast<uint32_t>(frame.bytes);
  if (!closed_) control_.push_back(frame);
  if (put || done.line == nullptr) return;
  auto& channel = *static_cast<Channel*>(done.line);
  --channel.writes;
  enlist(channel);
}

// The peer counts its gets, so each of them is answered.
template <class Which>
void Outbound::refuse_answers(Which which) {
  MessageQueue kept;
  while (!one_sided_.empty()) {
    Message* message = one_sided_.pop();
    if (message->type == FrameType::kAnswer && which(message->id)) {
      Message* refusal = pool_.take();
      refusal->type = FrameType::kRefused;
      refusal->id = message->id;
      refusal->signature = kGetRefused;
      answering_.push_back(refusal);
      if (message->flights == 0) std::erase(answering_, message);
      pool_.abandon(message);
      message = refusal;
    }
    kept.push(message);
  }
  one_sided_ = kept;
}

void Outbound::drop(transport::EpochId epoch) {
  one_sided_.remove_if(pool_, [&](const Message& message) {
    const bool own = message.type == FrameType::kPut || message.is_read;
    return own && epoch.has(message.id);
  });
  refuse_answers([&](const transport::ChannelId& id) { return epoch.has(id); });
  std::erase_if(control_, [&](const ControlFrame& frame) {
    const bool place =
        frame.header.type == FrameType::kTarget || frame.header.type == FrameType::kKey;
    return place && epoch.has(frame.header.channel);
  });
}

void Outbound::cut_off(const transport::ChannelId& region) {
  refuse_answers([&](const transport::ChannelId& id) { return id == region; });
}

// ---- the end ------------------------------------------------------------------------------------

std::optional<FrameHeader> Outbound::take_note() {
  OutFrame frame;
  if (note_.head != nullptr) return next_note(frame), frame.header;
  for (; !control_.empty(); control_.pop_front()) {
    const FrameHeader& header = control_.front().header;
    const bool is_said = header.type == FrameType::kNote || header.type == FrameType::kMismatch;
    if (!is_said) continue;
    frame.header = header;
    control_.pop_front();
    return frame.header;
  }
  return std::nullopt;
}

void Outbound::close() {
  closed_ = true;
  for (size_t priority = 0; priority < transport::kPriorities; ++priority) {
    ready_[priority] = aimed_[priority] = credit_[priority] = {};
  }
  note_ = {};
  control_.clear();
  one_sided_ = {};
  answering_.clear();
}

}  // namespace tutti::transport::stream
