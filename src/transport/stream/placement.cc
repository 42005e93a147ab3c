#include "src/transport/stream/placement.h"

#include <algorithm>

namespace tutti::transport::stream {
namespace {

// Numbers go into words of 24 bits with adapters that notify by an immediate value.
constexpr uint64_t kNumbers = uint64_t{1} << 24;

}  // namespace

const char* Targets::add(uint64_t position, uint64_t bytes, const KeyedPlace& place) {
  if (bytes == 0 || bytes > ~uint64_t{0} - position) return "a target of no bytes";
  const bool rises =
      targets_.empty() || position >= targets_.back().position + targets_.back().bytes;
  if (!rises) return "a target before another one";
  if (targets_.size() == kMost) return "more targets than a channel may have";
  targets_.push_back({position, bytes, place});
  return nullptr;
}

const KeyedPlace* Targets::find(uint64_t position, uint64_t& rest) {
  while (!targets_.empty() && targets_.front().position + targets_.front().bytes <= position) {
    targets_.pop_front();
  }
  if (targets_.empty() || targets_.front().position > position) return nullptr;
  const PlacementTarget& target = targets_.front();
  const uint64_t skipped = position - target.position;
  rest = target.bytes - skipped;
  found_ = target.place;
  found_.address += skipped;
  return &found_;
}

PlacedWrite PlacedWrites::begin(Line line, const FrameHeader& header, Message* message) {
  const uint64_t name = ++last_name_;
  const auto number = static_cast<uint32_t>(name % kNumbers);
  flights_.push_back({name, {header, line, header.length, number, 0}, message, false});
  PlacedWrite write;
  write.name = name;
  write.number = number;
  write.channel = header.channel;
  write.bytes = header.length;
  return write;
}

PlacedWrites::EndedPlacement PlacedWrites::end(uint64_t name, uint32_t segments) {
  const auto found = std::find_if(
      flights_.begin(), flights_.end(),
      [&](const PlacedFlight& flight) { return flight.name == name && !flight.ended; });
  if (found == flights_.end()) return {};
  found->ended = true;
  found->write.segments = segments;
  return {true, found->message};
}

Message* PlacedWrites::message_of(uint64_t name) const {
  const auto found = std::find_if(
      flights_.begin(), flights_.end(),
      [&](const PlacedFlight& flight) { return flight.name == name && !flight.ended; });
  return found == flights_.end() ? nullptr : found->message;
}

std::vector<PlacedWrites::WrittenFrame> PlacedWrites::take_told() {
  std::vector<WrittenFrame> told;
  std::vector<Line> blocked;
  std::vector<PlacedFlight> left;
  for (const PlacedFlight& flight : flights_) {
    const Line line = flight.write.line;
    const bool waits = std::find(blocked.begin(), blocked.end(), line) != blocked.end();
    if (flight.ended && (line == nullptr || !waits)) {
      if (line != nullptr || flight.write.segments > 0) told.push_back(flight.write);
      continue;
    }
    left.push_back(flight);
    blocked.push_back(line);
  }
  flights_ = std::move(left);
  return told;
}

bool PlacedWrites::has_any(const void* line) const {
  return std::any_of(flights_.begin(), flights_.end(),
                     [&](const PlacedFlight& flight) { return flight.write.line == line; });
}

bool PlacedWrites::has_any_to(const transport::ChannelId& region, const void* line) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const PlacedFlight& flight) {
    return flight.write.line == line && flight.write.header.channel == region;
  });
}

bool PlacedWrites::has_any_in(transport::EpochId epoch) const {
  return std::any_of(flights_.begin(), flights_.end(), [&](const PlacedFlight& flight) {
    return !flight.ended && epoch.has(flight.write.header.channel);
  });
}

void PlacedWrites::drop(Line line) {
  for (PlacedFlight& flight : flights_) {
    if (flight.write.line == line) flight.write.line = nullptr;
  }
}

}  // namespace tutti::transport::stream
