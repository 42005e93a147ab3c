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
//   MISMATCH  the bytes that were expected; the last word on a connection.
//   NOTE      nothing: the two signatures, message bytes and position are the words of the note.
// One-sided frames name a region of the receiver (REFUSED and ANSWER: of their sender) instead of a
// channel, and take no positions of any:
//   PUT       where in the region this frame's bytes go; message bytes are those of the frame.
//             `signature` is the signal that is raised behind them, or OneSided::kNoSignal.
//   GET       where in the region the message bytes lie that are asked for.
//   ANSWER    how many bytes of the answer went before; answers have the order of their requests.
//   REFUSED   the region is withdrawn; `signature` 1: in answer to a get, 0: to a put.
//
// Errors: decode() says what is wrong with bytes that no Tutti would have sent.
#pragma once

#include <cstddef>
#include <cstdint>

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
};

inline constexpr size_t kHeaderBytes = 48;
inline constexpr uint32_t kMaxFrameBytes = 256 * 1024;
inline constexpr uint64_t kRecordBytes = 16;
/// The bytes that a channel may send before its receiver has asked for anything.
inline constexpr uint64_t kEagerBytes = 64 * 1024;

struct FrameHeader {
  FrameType type = FrameType::kData;
  uint32_t length = 0;  // of the payload that follows this header
  transport::ChannelId channel;
  uint32_t signature = 0;
  uint32_t expected_signature = 0;  // MISMATCH only
  uint64_t message_bytes = 0;
  uint64_t position = 0;
};

void encode(const FrameHeader& header, std::byte* target);

/// Null if the header is sound, else what is wrong with it.
const char* decode(const std::byte* source, FrameHeader& header);

}  // namespace tutti::transport::stream
