#include "transports/tcp/inbound.h"

#include <algorithm>
#include <cstring>

namespace tutti::transports::tcp {

size_t Inbound::prepare(std::span<iovec> out) {
  direct_bytes_ = 0;
  size_t used = 0;
  size_t room = buffer_.size() - end_;
  if (payload_left_ > 0 && target_ != nullptr) {
    // commit() has left nothing in the buffer.
    used = target_->in.places(out.first(out.size() - 1), payload_left_);
    direct_bytes_ = total_bytes(out.first(used));
    if (direct_bytes_ < payload_left_) return used;
    room = kTailBytes;
  }
  out[used++] = {buffer_.data() + end_, room};
  return used;
}

bool Inbound::commit(size_t count) {
  const uint64_t direct = std::min<uint64_t>(count, direct_bytes_);
  if (direct > 0) {
    target_->in.arrived(direct);
    payload_left_ -= direct;
    settle(*target_);
  }
  end_ += count - direct;
  const bool sound = parse();
  if (begin_ == end_) {
    begin_ = end_ = 0;
  } else if (begin_ > 0) {
    // At most a part of one header is left.
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return sound;
}

bool Inbound::parse() {
  if (!sound()) return false;
  for (;;) {
    if (payload_left_ > 0) consume_payload();
    if (payload_left_ > 0 || end_ - begin_ < kHeaderBytes) return true;
    FrameHeader header;
    const char* wrong = decode(buffer_.data() + begin_, header);
    begin_ += kHeaderBytes;
    if (wrong != nullptr) return refuse(wrong);
    if (!begin(header)) return false;
  }
}

void Inbound::consume_payload() {
  const auto here = static_cast<size_t>(std::min<uint64_t>(payload_left_, end_ - begin_));
  if (target_ != nullptr && here > 0) {
    target_->in.take(buffer_.data() + begin_, here);
    settle(*target_);
  }
  begin_ += here;
  payload_left_ -= here;
}

bool Inbound::begin(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kData:
      return begin_data(header);
    case FrameType::kCredit:
      return apply_credit(header);
    case FrameType::kNote:
      return take_note(header);
    case FrameType::kMismatch:
      fault_.kind = Fault::Kind::kMismatchThere;
      fault_.channel = header.channel;
      fault_.mismatch = {header.signature, header.message_bytes, header.expected_signature,
                         header.position};
      return false;
  }
  return refuse("a frame of unknown type");
}

/// Null: the frame is for an epoch that is over, or a fault.
Channel* Inbound::channel_of(const FrameHeader& header) {
  Channel* channel = nullptr;
  const ChannelTable::Known known = channels_.find(header.channel, channel);
  if (known == ChannelTable::Known::kTooMany) refuse("more channels than one peer may open");
  return known == ChannelTable::Known::kYes ? channel : nullptr;
}

bool Inbound::begin_data(const FrameHeader& header) {
  payload_left_ = header.length;
  target_ = channel_of(header);
  if (target_ == nullptr) return sound();  // its payload is discarded
  const char* wrong = target_->in.begin_frame(header);
  if (wrong != nullptr) return refuse(wrong);
  settle(*target_);
  return sound();
}

bool Inbound::apply_credit(const FrameHeader& header) {
  Channel* channel = channel_of(header);
  if (channel == nullptr) return sound();
  const char* wrong = channel->out.grant(header.position);
  if (wrong != nullptr) return refuse(wrong);
  outbound_.enlist(*channel);
  return true;
}

bool Inbound::take_note(const FrameHeader& header) {
  Channel* channel = channel_of(header);
  if (channel == nullptr) return sound();
  channel->heard = {{header.signature, header.expected_signature},
                    {header.message_bytes, header.position}};
  ++channel->notes_heard;
  return true;
}

void Inbound::settle(Channel& channel) {
  if (channel.in.mismatched() && sound()) {
    fault_.kind = Fault::Kind::kMismatchHere;
    fault_.channel = channel.id;
    fault_.mismatch = channel.in.mismatch();
  }
  Message* message = channel.in.pop_complete();
  if (message == nullptr) return;
  tickets_.complete(message->ticket);
  pool_.give_back(message);
}

void Inbound::forget(Channel& channel) {
  if (target_ == &channel) target_ = nullptr;
}

bool Inbound::refuse(const char* what) {
  fault_.kind = Fault::Kind::kMalformed;
  fault_.what = what;
  return false;
}

}  // namespace tutti::transports::tcp
