#include "src/transport/stream/outbound.h"

#include <algorithm>
#include <cstring>

#include "src/base/caught.h"

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

void append_header(std::vector<std::byte>& bytes, const FrameHeader& header) {
  bytes.resize(bytes.size() + kHeaderBytes);
  encode(header, bytes.data() + bytes.size() - kHeaderBytes);
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
  channel.in_ready = true;
  append(ready_, channel, &Channel::next_ready);
}

void Outbound::owe_credit(Channel& channel) {
  if (closed_ || channel.in_credit) return;
  channel.in_credit = true;
  append(credit_, channel, &Channel::next_credit);
}

void Outbound::owe_note(Channel& channel) {
  if (closed_ || channel.in_note) return;
  channel.in_note = true;
  append(note_, channel, &Channel::next_note);
}

void Outbound::push(Message* message) {
  if (closed_) return pool_.give_back(message);
  if (is_answer(*message)) ++answers_;
  one_sided_.push(message);
}

bool Outbound::reads(const transport::ChannelId& region) const {
  const auto read_by = [&](const Message* message) {
    return message != nullptr && message->type == FrameType::kAnswer && message->id == region;
  };
  for (const Message* queued = one_sided_.front(); queued != nullptr; queued = queued->next) {
    if (read_by(queued)) return true;
  }
  return std::any_of(frames_.begin() + static_cast<ptrdiff_t>(next_frame_),
                     frames_.begin() + static_cast<ptrdiff_t>(frames_used_),
                     [&](const QueuedFrame& frame) { return read_by(frame.finished); });
}

void Outbound::forget(Channel& channel) {
  if (channel.in_ready) remove(ready_, channel, &Channel::next_ready);
  if (channel.in_credit) remove(credit_, channel, &Channel::next_credit);
  if (channel.in_note) remove(note_, channel, &Channel::next_note);
  channel.in_ready = false;
  channel.in_credit = false;
  channel.in_note = false;
}

// ---- batches ----------------------------------------------------------------------------------

std::span<const iovec> Outbound::gather() {
  if (!batch_left() && !closed_) build();
  return {entries_.data() + next_entry_, entries_used_ - next_entry_};
}

bool Outbound::batch_full() const {
  return frames_used_ == kMaxFrames || entries_used_ + 2 > kMaxEntries ||
         batch_bytes_ >= kBatchBytes;
}

void Outbound::build() {
  frames_used_ = next_frame_ = entries_used_ = next_entry_ = 0;
  batch_bytes_ = written_ = 0;
  while (note_.head != nullptr && !batch_full()) {
    add_note(*take(note_, &Channel::next_note));
  }
  while (credit_.head != nullptr && !batch_full()) {
    add_credit(*take(credit_, &Channel::next_credit));
  }
  while ((ready_.head != nullptr || !one_sided_.empty()) && !batch_full()) {
    if (ready_.head != nullptr) add_data(*take(ready_, &Channel::next_ready));
    if (!one_sided_.empty() && !batch_full()) add_one_sided();
  }
}

std::byte* Outbound::add_header() {
  std::byte* header = headers_[frames_used_].data();
  entries_[entries_used_++] = {header, kHeaderBytes};
  batch_bytes_ += kHeaderBytes;
  frames_[frames_used_++] = {batch_bytes_, nullptr, false};
  return header;
}

void Outbound::add_credit(Channel& channel) {
  channel.in_credit = false;
  FrameHeader header;
  header.type = FrameType::kCredit;
  header.channel = channel.id;
  header.position = channel.in.issue_grant();
  encode(header, add_header());
}

void Outbound::add_note(Channel& channel) {
  channel.in_note = false;
  encode(note_of(channel), add_header());
  frames_[frames_used_ - 1].note = true;
}

void Outbound::add_data(Channel& channel) {
  channel.in_ready = false;
  Message* message = channel.out.front();
  std::byte* target = add_header();
  const uint64_t length = add_payload(*message, channel.out.allowance());
  FrameHeader header = channel.out.begin_frame(static_cast<uint32_t>(length));
  header.channel = channel.id;
  encode(header, target);
  frames_[frames_used_ - 1] = {batch_bytes_, message->complete() ? message : nullptr, false};
  enlist(channel);
}

void Outbound::add_one_sided() {
  Message* message = one_sided_.front();
  std::byte* target = add_header();
  const uint64_t length = add_payload(*message, kMaxFrameBytes);
  encode(one_sided_header(*message, length), target);
  message->advance(length);
  if (message->complete()) one_sided_.pop();
  frames_[frames_used_ - 1] = {batch_bytes_, message->complete() ? message : nullptr, false};
}

// Behind the header that was added last: the next bytes of the message, which says how many.
uint64_t Outbound::add_payload(const Message& message, uint64_t limit) {
  const std::span<iovec> room(entries_.data() + entries_used_, kMaxEntries - entries_used_);
  const size_t used = message.view(room, limit);
  const uint64_t length = total_bytes(room.first(used));
  entries_used_ += used;
  batch_bytes_ += length;
  return length;
}

void Outbound::wrote(size_t count) {
  written_ += count;
  while (count > 0) {
    iovec& entry = entries_[next_entry_];
    if (count < entry.iov_len) {
      entry.iov_base = static_cast<std::byte*>(entry.iov_base) + count;
      entry.iov_len -= count;
      break;
    }
    count -= entry.iov_len;
    ++next_entry_;
  }
  finish_frames();
}

void Outbound::finish_frames() {
  for (; next_frame_ < frames_used_ && frames_[next_frame_].end <= written_; ++next_frame_) {
    Message* message = frames_[next_frame_].finished;
    if (message == nullptr) continue;
    if (message->ticket != 0) tickets_.complete(message->ticket);
    if (is_answer(*message)) --answers_;
    pool_.give_back(message);
  }
}

// ---- the end ------------------------------------------------------------------------------------

// The peer counts bytes, so a frame that has begun must be finished, and with the bytes it is made
// of: the peer may take it for what it is before it reads on.
void Outbound::save_half_frame() {
  const uint64_t begin = next_frame_ == 0 ? 0 : frames_[next_frame_ - 1].end;
  if (!batch_left() || written_ == begin) return;
  uint64_t left = frames_[next_frame_].end - written_;
  for (size_t at = next_entry_; left > 0; ++at) {
    const auto* source = static_cast<const std::byte*>(entries_[at].iov_base);
    const uint64_t here = std::min<uint64_t>(left, entries_[at].iov_len);
    last_words_.insert(last_words_.end(), source, source + here);
    left -= here;
  }
}

// Those of the batch that have not begun, and those that wait.
void Outbound::save_notes() {
  for (size_t frame = next_frame_; frame < frames_used_; ++frame) {
    const uint64_t begin = frame == 0 ? 0 : frames_[frame - 1].end;
    if (!frames_[frame].note || written_ > begin) continue;
    last_words_.insert(last_words_.end(), headers_[frame].begin(), headers_[frame].end());
  }
  for (Channel* channel = note_.head; channel != nullptr; channel = channel->next_note) {
    append_header(last_words_, note_of(*channel));
  }
}

// The last words are the one entry of a batch that has no frames.
void Outbound::close() {
  closed_ = true;
  ready_ = {};
  credit_ = {};
  note_ = {};
  one_sided_ = {};
  answers_ = 0;
  frames_used_ = next_frame_ = next_entry_ = 0;
  entries_used_ = last_words_.empty() ? 0 : 1;
  entries_[0] = {last_words_.data(), last_words_.size()};
}

void Outbound::leave() {
  if (closed_) return;
  const Status saved = caught_status([this] {
    save_half_frame();
    save_notes();
    return Status();
  });
  // Without memory for what is left the peer sees the stream end within a frame: this rank failed.
  if (!saved.ok()) last_words_.clear();
  close();
}

void Outbound::farewell(const FrameHeader& last) {
  if (closed_) return;
  save_half_frame();
  save_notes();
  append_header(last_words_, last);
  close();
}

}  // namespace tutti::transport::stream
