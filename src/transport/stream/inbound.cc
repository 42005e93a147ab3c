#include "src/transport/stream/inbound.h"

#include <algorithm>
#include <cstring>

namespace tutti::transport::stream {

size_t Inbound::places(std::span<iovec> out) const {
  if (target_ != nullptr) return target_->in.places(out, payload_left_);
  if (answer_ != nullptr) return answer_->view(out, payload_left_);
  if (landing_.memory == nullptr) return 0;
  out[0] = {landing_.memory, static_cast<size_t>(payload_left_)};
  return 1;
}

size_t Inbound::prepare(std::span<iovec> out) {
  direct_bytes_ = 0;
  size_t used = 0;
  size_t room = buffer_.size() - end_;
  if (payload_left_ > 0) used = places(out.first(out.size() - 1));
  if (used > 0) {
    // commit() has left nothing in the buffer.
    direct_bytes_ = total_bytes(out.first(used));
    if (direct_bytes_ < payload_left_) return used;
    room = kTailBytes;
  }
  out[used++] = {buffer_.data() + end_, room};
  return used;
}

void Inbound::arrived(uint64_t count) {
  if (target_ != nullptr) {
    target_->in.arrived(count);
  } else if (answer_ != nullptr) {
    answer_->advance(count);
  } else {
    landing_.memory += count;
  }
}

void Inbound::take(const std::byte* source, uint64_t count) {
  if (target_ != nullptr) {
    target_->in.take(source, count);
  } else if (answer_ != nullptr) {
    answer_->fill(source, count);
  } else if (landing_.memory != nullptr) {
    std::memcpy(landing_.memory, source, count);
    landing_.memory += count;
  }
}

// Ends the frame that the bytes so far complete.
void Inbound::finish_frame() {
  if (target_ != nullptr) settle(*target_);
  if (answer_ != nullptr && answer_->complete()) {
    answer_ = nullptr;
    regions_.finish_get();
  }
  if (payload_left_ > 0) return;
  answer_ = nullptr;
  if (landing_.signal != nullptr) {
    // The counter has no other writer. A thread that sees it sees the bytes.
    landing_.signal->store(landing_.signal->load(std::memory_order_relaxed) + 1,
                           std::memory_order_release);
  }
  landing_ = {};
}

bool Inbound::commit(size_t count) {
  const uint64_t direct = std::min<uint64_t>(count, direct_bytes_);
  if (direct > 0) {
    arrived(direct);
    payload_left_ -= direct;
    finish_frame();
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
  if (here > 0) take(buffer_.data() + begin_, here);
  begin_ += here;
  payload_left_ -= here;
  if (here > 0) finish_frame();
}

bool Inbound::begin(const FrameHeader& header) {
  switch (header.type) {
    case FrameType::kData:
      return begin_data(header);
    case FrameType::kCredit:
      return apply_credit(header);
    case FrameType::kNote:
      return take_note(header);
    case FrameType::kPut:
      return begin_put(header);
    case FrameType::kGet:
      return accept(regions_.take_get(header));
    case FrameType::kAnswer:
      return begin_answer(header);
    case FrameType::kRefused:
      return accept(regions_.take_refusal(header));
    case FrameType::kMismatch:
      fault_.kind = Fault::FaultKind::kMismatchThere;
      fault_.channel = header.channel;
      fault_.mismatch = {header.signature, header.message_bytes, header.expected_signature,
                         header.position};
      return false;
  }
  return refuse("a frame of unknown type");
}

bool Inbound::begin_put(const FrameHeader& header) {
  payload_left_ = header.length;
  target_ = nullptr;
  region_ = header.channel;
  if (!accept(regions_.begin_put(header, landing_))) return false;
  if (header.length == 0) finish_frame();
  return true;
}

bool Inbound::begin_answer(const FrameHeader& header) {
  payload_left_ = header.length;
  target_ = nullptr;
  if (!accept(regions_.begin_answer(header, answer_))) return false;
  if (header.length == 0) finish_frame();
  return true;
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
  if (!accept(target_->in.begin_frame(header))) return false;
  settle(*target_);
  return sound();
}

bool Inbound::apply_credit(const FrameHeader& header) {
  Channel* channel = channel_of(header);
  if (channel == nullptr) return sound();
  if (!accept(channel->out.grant(header.position))) return false;
  outbound_.enlist(*channel);
  return true;
}

bool Inbound::take_note(const FrameHeader& header) {
  Channel* channel = channel_of(header);
  if (channel == nullptr) return sound();
  channel->heard = {{header.signature, header.expected_signature},
                    {header.message_bytes, header.position}};
  ++channel->notes_heard;
  if (on_note_) on_note_(channel->id);
  return true;
}

void Inbound::settle(Channel& channel) {
  if (channel.in.mismatched() && sound()) {
    fault_.kind = Fault::FaultKind::kMismatchHere;
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

void Inbound::forget(const Regions::Id& region) {
  if (region_ == region) landing_ = {};
}

bool Inbound::accept(const char* wrong) { return wrong == nullptr || refuse(wrong); }

bool Inbound::refuse(const char* what) {
  fault_.kind = Fault::FaultKind::kMalformed;
  fault_.what = what;
  return false;
}

}  // namespace tutti::transport::stream
