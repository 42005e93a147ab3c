// The frames on the wire: a header of fixed size, and for DATA, PUT and ANSWER up to kMaxFrameBytes
// of one message.
//
//   bytes  0..2 "TUF"   3 type   4..7 length   8..15 communicator   16..19 epoch   20..23 lane
//         24..27 signature   28..31 expected signature   32..39 message bytes   40..47 position
//
// All numbers little-endian. A channel is a stream of positions: each message takes kRecordBytes
// and then its bytes, so that empty messages cost credit too. `position` means:
//   DATA      where this frame begins; with several flows it says where a frame belongs.
//   CREDIT    the sender may send up to here; it only rises.
//   MISMATCH  the bytes that were expected; the epoch of the channel cannot go on.
//   NOTE      nothing: the two signatures, message bytes and position are the words of the note.
// One-sided frames name a region of the receiver (REFUSED and ANSWER: of their sender) instead of a
// channel, and take no positions of any:
//   PUT       where in the region this frame's bytes go; message bytes are those of the frame.
//             `signature` is the signal that is raised behind them, or OneSided::kNoSignal.
//   GET       where in the region the message bytes lie that are asked for.
//   ANSWER    how many bytes of the answer went before; answers have the order of their requests.
//   REFUSED   the region is withdrawn; `signature` 1: in answer to a get, 0: to a put.
//
// Where the transport writes into the peer's memory by itself (PlacedExchange), a frame may also
// say where that is, or what was written. These have a small payload of their own:
//   TARGET    {address, key}: message bytes of the channel's positions from `position` on lie
//   there. PLACED    DATA without its bytes: {bytes, number, segments} were written to their
//   target; 0 bytes: the write was of a channel that has ended. KEY       {address, key}: where the
//   sender's region lies, of message bytes. PUT_PLACED  PUT without its bytes: {bytes, number,
//   segments} were written to the region. WITHDRAW  the sender's region has ended. WITHDRAWN:
//   nothing is written to it any more.
//
// Epochs of communicators end for themselves, and the channel's lane says nothing:
//   OVER      the sender uses this epoch no more: it sends and takes nothing for it.
//   OVER_SEEN the sender has read OVER, and writes to no memory of that epoch any more.
//
// A pipe that carries frames one by one may disorder them, so there 8 bytes follow the header: the
// number of the frame on its link, from 0 on (encode_sequenced()).
//
// Errors: decode() says what is wrong with bytes that no Tutti would have sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "src/transport/transport.h"

namespace tutti::transport::stream {

enum class FrameType : uint8_t {
  kData = 1,
  kCredit = 2,
  kMismatch = 3,
  kNote = 4,
  kPut = 5,
  kGet = 6,
  kAnswer = 7,
  kRefused = 8,
  kTarget = 9,
  kPlaced = 10,
  kKey = 11,
  kPutPlaced = 12,
  kWithdraw = 13,
  kWithdrawn = 14,
  kOver = 15,
  kOverSeen = 16,
};

inline constexpr size_t kHeaderBytes = 48;
inline constexpr size_t kSequencedHeaderBytes = kHeaderBytes + 8;
inline constexpr uint32_t kMaxFrameBytes = 256 * 1024;
/// Of what a transport writes into its peer's memory and tells by one frame.
inline constexpr uint32_t kMaxPlacedBytes = 8 * 1024 * 1024;
inline constexpr uint64_t kRecordBytes = 16;
/// `signature` of REFUSED.
inline constexpr uint32_t kPutRefused = 0, kGetRefused = 1;
/// The bytes that a channel may send before its receiver has asked for anything.
inline constexpr uint64_t kEagerBytes = 64 * 1024;
/// Of a receive or a put: from here on it is worth a frame of its own to say where it lies.
inline constexpr uint64_t kPlacedBytes = 16 * 1024;

struct FrameHeader {
  FrameType type = FrameType::kData;
  uint32_t length = 0;  // of the payload that follows this header
  transport::ChannelId channel;
  uint32_t signature = 0;
  uint32_t expected_signature = 0;  // MISMATCH only
  uint64_t message_bytes = 0;
  uint64_t position = 0;
};

/// A transport needs this to write to memory of its peer: opaque, and secret to nobody on the link.
struct MemoryKey {
  static constexpr size_t kMaxBytes = 64;
  std::array<std::byte, kMaxBytes> data;
  uint8_t bytes = 0;

  std::span<const std::byte> view() const { return {data.data(), bytes}; }
};

/// The payload of TARGET and KEY.
struct KeyedPlace {
  uint64_t address = 0;  // as its owner sees it
  MemoryKey key;
};
/// The payload of PLACED and PUT_PLACED.
struct PlacedBytes {
  uint64_t bytes = 0;
  uint32_t number = 0;    // of the write, on its link
  uint32_t segments = 0;  // that the receiver itself sees arriving; 0: it need not look
};
inline constexpr size_t kMaxControlPayload = 8 + MemoryKey::kMaxBytes;
inline constexpr size_t kPlacedPayload = 16;

/// Of those that only links know whose transport writes into the peer's memory.
constexpr bool is_placed(FrameType type) {
  return type >= FrameType::kTarget && type <= FrameType::kWithdrawn;
}

void encode(const FrameHeader& header, std::byte* target);
void encode_sequenced(const FrameHeader& header, uint64_t sequence, std::byte* target);
/// Returns how many bytes it takes.
size_t encode(const KeyedPlace& place, std::byte* target);
size_t encode(const PlacedBytes& placed, std::byte* target);

/// Null if the header is sound, else what is wrong with it.
const char* decode(const std::byte* source, FrameHeader& header);
const char* decode_sequenced(std::span<const std::byte> source, FrameHeader& header,
                             uint64_t& sequence);
/// Of payloads whose length decode() has found to be right.
KeyedPlace decode_place(std::span<const std::byte> payload);
PlacedBytes decode_placed(std::span<const std::byte> payload);

}  // namespace tutti::transport::stream
