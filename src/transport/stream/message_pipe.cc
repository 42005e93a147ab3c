#include "src/transport/stream/message_pipe.h"

#include <algorithm>
#include <utility>

#include "src/base/readable_copy.h"

namespace tutti::transport::stream {
namespace {

// A peer has few writes under way and few frames that tell of others, but those that its link has
// taken wait for this end as well, and a card may tell of many writes before a frame is looked at.
constexpr size_t kMostNumbers = 64 * PlacedWrites::kMost;

}  // namespace

// ---- out --------------------------------------------------------------------------------------

MessageExchange::Flight& MessageExchange::free_flight(uint64_t& name) {
  if (free_.empty()) {
    flights_.emplace_back();
    free_.push_back(flights_.size() - 1);
  }
  name = free_.back();
  return flights_[name];
}

std::optional<CarriedFrame> MessageExchange::next(uint64_t limit) {
  uint64_t name = 0;
  Flight& flight = free_flight(name);
  OutFrame& frame = flight.frame;
  if (!last_words_.empty()) {
    frame = OutFrame();
    frame.header = last_words_.front();
    last_words_.pop_front();
  } else if (!outbound().next(frame, flight.pieces, limit)) {
    return std::nullopt;
  }
  if (frame.control_bytes > 0)
    flight.pieces[frame.pieces++] = {frame.control.data(), frame.control_bytes};
  encode_sequenced(frame.header, sent_frames_++, flight.header.data());
  free_.pop_back();
  flight.used = true;
  return CarriedFrame{
      name, flight.header, {flight.pieces.data(), frame.pieces}, frame.message != nullptr};
}

CarriedFrame MessageExchange::keep(const CarriedFrame& frame) {
  Flight& flight = flights_[frame.name];
  if (flight.frame.message == nullptr) return frame;
  flight.copy.clear();
  for (const iovec& piece : frame.payload) {
    const size_t at = flight.copy.size();
    flight.copy.resize(at + piece.iov_len);
    if (copy_if_readable(flight.copy.data() + at, piece.iov_base, piece.iov_len)) continue;
    give_up(unreadable_source());
    return {frame.name, flight.header, {}};
  }
  outbound().landed(std::exchange(flight.frame.message, nullptr));
  flight.pieces[0] = {flight.copy.data(), flight.copy.size()};
  return {frame.name, flight.header, {flight.pieces.data(), flight.copy.empty() ? 0u : 1u}};
}

void MessageExchange::carried(uint64_t name) {
  if (name >= flights_.size() || !flights_[name].used) return;
  flights_[name].used = false;
  free_.push_back(name);
  outbound().landed(flights_[name].frame.message);
}

// Frames of messages are whole, so nothing is half out: the pipe drops what it has not begun.
void MessageExchange::end_output() {
  if (outbound().closed()) return;
  while (const auto note = outbound().take_note()) last_words_.push_back(*note);
  outbound().close();
}

bool MessageExchange::reads_output(transport::EpochId epoch) const {
  if (copies_) return false;
  return std::any_of(flights_.begin(), flights_.end(), [&](const Flight& flight) {
    const bool reads = flight.used && flight.frame.message != nullptr;
    return reads && epoch.has(flight.frame.header.channel);
  });
}

std::optional<CarriedWrite> MessageExchange::next_write(const Outbound::WriteLimits& limits) {
  std::array<iovec, kMaxPieces> pieces;
  const auto write = outbound().next_write(pieces, limits);
  if (!write) return std::nullopt;
  const auto& kept = sources_.insert_or_assign(write->name, pieces).first->second;
  return CarriedWrite{*write, {kept.data(), write->pieces}};
}

void MessageExchange::written(uint64_t name, uint32_t segments) {
  if (sources_.erase(name) > 0) outbound().written(name, segments);
}

void MessageExchange::abandon(uint64_t name) {
  if (sources_.erase(name) > 0) outbound().abandon(name);
}

// ---- in ---------------------------------------------------------------------------------------

void MessageExchange::take(std::span<const std::byte> bytes, std::span<const std::byte> payload) {
  if (faulty()) return;
  FrameHeader header;
  uint64_t sequence = 0;
  if (const char* wrong = decode_sequenced(bytes, header, sequence); wrong != nullptr) {
    return refuse(wrong);
  }
  if (payload.size() != header.length) return refuse("a frame with a payload of another length");
  if (sequence < next_sequence_ || early_.contains(sequence)) return refuse("a frame twice");
  if (sequence - next_sequence_ >= kMostEarly) return refuse("frames with a gap between them");
  if (sequence != next_sequence_ || !is_whole(header, payload)) {
    return keep(sequence, header, payload);
  }
  if (act(header, payload)) act_on_early();
}

void MessageExchange::keep(uint64_t sequence, const FrameHeader& header,
                           std::span<const std::byte> payload) {
  early_bytes_ += payload.size();
  if (early_bytes_ > kMostEarlyBytes) return refuse("more bytes ahead of a gap than are kept");
  early_[sequence] = {header, {payload.begin(), payload.end()}};
}

void MessageExchange::act_on_early() {
  while (!early_.empty() && early_.begin()->first == next_sequence_) {
    const EarlyFrame& first = early_.begin()->second;
    if (!is_whole(first.header, first.payload)) return;
    const bool sound = act(first.header, first.payload);
    early_bytes_ -= first.payload.size();
    early_.erase(early_.begin());
    if (!sound) return;
  }
}

// Whether all segments of a write are here. They are forgotten with the frame that tells of them.
bool MessageExchange::is_whole(const FrameHeader& header, std::span<const std::byte> payload) {
  if (header.type != FrameType::kPlaced && header.type != FrameType::kPutPlaced) return true;
  const PlacedBytes placed = decode_placed(payload);
  if (placed.segments == 0) return true;
  const auto found = segments_.find(placed.number);
  return found != segments_.end() && found->second >= placed.segments;
}

bool MessageExchange::act(const FrameHeader& header, std::span<const std::byte> payload) {
  ++next_sequence_;
  if (is_placed(header.type)) {
    if (!outbound().places()) return refuse("a frame that such a link does not carry"), false;
    if (header.type == FrameType::kPlaced || header.type == FrameType::kPutPlaced) {
      segments_.erase(decode_placed(payload).number);
    }
    inbound().take_placed(header, payload);
  } else if (inbound().begin(header) && !payload.empty()) {
    inbound().take(payload.data(), payload.size());
  }
  if (!inbound().sound() || inbound().has_found_mismatch()) conclude();
  return !faulty();
}

void MessageExchange::arrived(uint32_t number, uint32_t segments) {
  if (faulty()) return;
  segments_[number] += segments;
  if (segments_.size() > kMostNumbers) return refuse("writes that no frame tells of");
  act_on_early();
}

void MessageExchange::refuse(const char* what) {
  inbound().refuse(what);
  conclude();
}

}  // namespace tutti::transport::stream
