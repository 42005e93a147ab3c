#include "src/transport/stream/inbound.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::transport::stream {

size_t Inbound::places(std::span<iovec> out) const {
  if (target_ != nullptr) return target_->in.places(out, payload_left_);
  if (answer_ != nullptr) return answer_->view(out, payload_left_);
  if (landing_.memory == nullptr) return 0;
  out[0] = {landing_.memory, static_cast<size_t>(payload_left_)};
  return 1;
}

void Inbound::arrived(uint64_t count) {
  payload_left_ -= count;
  if (target_ != nullptr) {
    target_->in.arrived(count);
  } else if (answer_ != nullptr) {
    answer_->advance(count);
  } else {
    landing_.memory += count;
  }
  finish_frame();
}

void Inbound::take(const std::byte* source, uint64_t count) {
  payload_left_ -= count;
  if (target_ != nullptr) {
    target_->in.take(source, count);
  } else if (answer_ != nullptr) {
    answer_->fill(source, count);
  } else if (landing_.memory != nullptr) {
    std::memcpy(landing_.memory, source, count);
    landing_.memory += count;
  }
  finish_frame();
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
  Regions::raise(landing_);
  landing_ = {};
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
      return take_mismatch(header);
    case FrameType::kOver:
      return take_over(header);
    case FrameType::kOverSeen:
      channels_.note_seen({header.channel.communicator, header.channel.epoch});
      return true;
    case FrameType::kTarget:
    case FrameType::kPlaced:
    case FrameType::kKey:
    case FrameType::kPutPlaced:
    case FrameType::kWithdraw:
    case FrameType::kWithdrawn:
      break;  // take_placed()
  }
  return refuse("a frame of unknown type");
}

bool Inbound::take_placed(const FrameHeader& header, std::span<const std::byte> payload) {
  switch (header.type) {
    case FrameType::kTarget:
      return take_target(header, decode_place(payload));
    case FrameType::kPlaced:
      return take_placed_data(header, decode_placed(payload).bytes);
    case FrameType::kPutPlaced:
      return accept(regions_.take_placed(header, decode_placed(payload).bytes));
    case FrameType::kKey:
      return accept(regions_.learn(header, decode_place(payload)));
    case FrameType::kWithdraw:
      regions_.forget_peers(header.channel);
      return true;
    case FrameType::kWithdrawn:
      regions_.end(header.channel);
      return true;
    default:
      return refuse("a frame of unknown type");
  }
}

bool Inbound::take_target(const FrameHeader& header, const KeyedPlace& place) {
  Channel* channel = channel_of(header);
  if (channel == nullptr) return sound();
  if (!accept(channel->out.aim(header.position, header.message_bytes, place))) return false;
  outbound_.enlist(*channel);  // its next bytes may have waited for that
  return true;
}

// As a frame of DATA whose payload is there already.
bool Inbound::take_placed_data(const FrameHeader& header, uint64_t bytes) {
  if (bytes > kMaxPlacedBytes || bytes > header.message_bytes) {
    return refuse("a placed frame is longer than allowed");
  }
  if (bytes == 0) return true;  // its channel has ended there
  Channel* channel = channel_of(header);
  if (channel == nullptr) return sound();
  FrameHeader data = header;
  data.length = static_cast<uint32_t>(bytes);
  if (!accept(channel->in.begin_frame(data)) || !accept(channel->in.take_placed(bytes))) {
    return false;
  }
  settle(*channel);
  return sound();
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

bool Inbound::take_mismatch(const FrameHeader& header) {
  if (channel_of(header) == nullptr) return sound();
  mismatches_.push_back(
      {false,
       header.channel,
       {header.signature, header.message_bytes, header.expected_signature, header.position}});
  return true;
}

bool Inbound::take_over(const FrameHeader& header) {
  const transport::EpochId epoch{header.channel.communicator, header.channel.epoch};
  const bool remembered = channels_.end_there(epoch, [this](Channel& channel) {
    channel.out.close();
    outbound_.unlist(channel);
  });
  if (!remembered) return refuse("the ends of more communicators than a link remembers");
  regions_.end_there(epoch);
  outbound_.end_there(epoch);
  return true;
}

void Inbound::settle(Channel& channel) {
  if (channel.in.fault() != nullptr) refuse(channel.in.fault());
  if (channel.in.mismatched() && !std::exchange(channel.mismatch_found, true)) {
    mismatches_.push_back({true, channel.id, channel.in.mismatch()});
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

void Inbound::forget(transport::EpochId epoch) {
  if (epoch.has(region_)) landing_ = {};
}

bool Inbound::accept(const char* wrong) { return wrong == nullptr || refuse(wrong); }

bool Inbound::refuse(const char* what) {
  fault_ = what;
  return false;
}

}  // namespace tutti::transport::stream
