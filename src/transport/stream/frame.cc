#include "src/transport/stream/frame.h"

#include <bit>
#include <cstring>

namespace tutti::transport::stream {
namespace {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

constexpr uint32_t kMagic = 'T' | 'U' << 8 | 'F' << 16;
constexpr uint32_t kMagicMask = 0x00ffffff;

template <class T>
void put(std::byte* target, size_t offset, T value) {
  std::memcpy(target + offset, &value, sizeof value);
}

template <class T>
T get(const std::byte* source, size_t offset) {
  T value;
  std::memcpy(&value, source + offset, sizeof value);
  return value;
}

const char* check_data(const FrameHeader& header) {
  if (header.length > kMaxFrameBytes) return "a frame is longer than allowed";
  if (header.length > header.message_bytes) return "a frame is longer than its message";
  if (header.length == 0 && header.message_bytes != 0) return "a frame of a message is empty";
  return nullptr;
}

}  // namespace

void encode(const FrameHeader& header, std::byte* target) {
  put<uint32_t>(target, 0, kMagic | static_cast<uint32_t>(header.type) << 24);
  put<uint32_t>(target, 4, header.length);
  put<uint64_t>(target, 8, header.channel.communicator);
  put<uint32_t>(target, 16, header.channel.epoch);
  put<uint32_t>(target, 20, header.channel.lane);
  put<uint32_t>(target, 24, header.signature);
  put<uint32_t>(target, 28, header.expected_signature);
  put<uint64_t>(target, 32, header.message_bytes);
  put<uint64_t>(target, 40, header.position);
}

const char* decode(const std::byte* source, FrameHeader& header) {
  const auto first = get<uint32_t>(source, 0);
  if ((first & kMagicMask) != kMagic) return "bytes that are no frame";
  header.type = static_cast<FrameType>(first >> 24);
  header.length = get<uint32_t>(source, 4);
  header.channel.communicator = get<uint64_t>(source, 8);
  header.channel.epoch = get<uint32_t>(source, 16);
  header.channel.lane = get<uint32_t>(source, 20);
  header.signature = get<uint32_t>(source, 24);
  header.expected_signature = get<uint32_t>(source, 28);
  header.message_bytes = get<uint64_t>(source, 32);
  header.position = get<uint64_t>(source, 40);
  switch (header.type) {
    case FrameType::kData:
    case FrameType::kAnswer:
      return check_data(header);
    case FrameType::kPut:
      return header.length == header.message_bytes ? check_data(header) : "a put says two lengths";
    case FrameType::kCredit:
    case FrameType::kMismatch:
    case FrameType::kNote:
    case FrameType::kGet:
    case FrameType::kRefused:
    case FrameType::kWithdraw:
    case FrameType::kWithdrawn:
    case FrameType::kOver:
    case FrameType::kOverSeen:
      return header.length == 0 ? nullptr : "a control frame has a payload";
    case FrameType::kTarget:
    case FrameType::kKey:
      return header.length >= 8 && header.length <= kMaxControlPayload
                 ? nullptr
                 : "a place of memory has a wrong length";
    case FrameType::kPlaced:
    case FrameType::kPutPlaced:
      return header.length == kPlacedPayload ? nullptr : "a placed frame has a wrong length";
  }
  return "a frame of unknown type";
}

void encode_sequenced(const FrameHeader& header, uint64_t sequence, std::byte* target) {
  encode(header, target);
  put<uint64_t>(target, kHeaderBytes, sequence);
}

const char* decode_sequenced(std::span<const std::byte> source, FrameHeader& header,
                             uint64_t& sequence) {
  if (source.size() != kSequencedHeaderBytes) return "a header has a wrong length";
  sequence = get<uint64_t>(source.data(), kHeaderBytes);
  return decode(source.data(), header);
}

size_t encode(const KeyedPlace& place, std::byte* target) {
  put<uint64_t>(target, 0, place.address);
  std::memcpy(target + 8, place.key.data.data(), place.key.bytes);
  return 8 + size_t{place.key.bytes};
}

size_t encode(const PlacedBytes& placed, std::byte* target) {
  put<uint64_t>(target, 0, placed.bytes);
  put<uint32_t>(target, 8, placed.number);
  put<uint32_t>(target, 12, placed.segments);
  return kPlacedPayload;
}

KeyedPlace decode_place(std::span<const std::byte> payload) {
  KeyedPlace place;
  place.address = get<uint64_t>(payload.data(), 0);
  place.key.bytes = static_cast<uint8_t>(payload.size() - 8);
  std::memcpy(place.key.data.data(), payload.data() + 8, place.key.bytes);
  return place;
}

PlacedBytes decode_placed(std::span<const std::byte> payload) {
  return {get<uint64_t>(payload.data(), 0), get<uint32_t>(payload.data(), 8),
          get<uint32_t>(payload.data(), 12)};
}

}  // namespace tutti::transport::stream
