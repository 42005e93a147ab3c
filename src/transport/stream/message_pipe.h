// The pipes that carry a frame as one message, such as a queue pair of an adapter or an active
// message: frames out, one by one, and frames in, sorted where the pipe has disordered them.
//
// A pipe may also write into memory of its peer by itself. It then asks next_write() for what it
// shall write, and says written() when a frame that is sent afterwards finds the bytes in place;
// or, where the receiving end sees each segment of a write arrive, at once, and arrived() is told
// there.
//
// Owns:    headers, and frames that came early, in bounds: a peer whose frames leave gaps is at
//          fault. Payloads are the callers' until carried() or written().
// Threads: under the stream's mutex.
// Errors:  fault_status().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "src/transport/stream/exchange.h"

namespace tutti::transport::stream {

/// A frame that the pipe shall carry as one message; it stays as it is until carried().
struct CarriedFrame {
  uint64_t name = 0;
  std::span<const std::byte> header;
  std::span<const iovec> payload;
  bool is_data = false;  // the payload is of a message or of a window, as it is in memory
};

/// Bytes that the pipe shall write into the peer's memory; they stay as they are until written().
struct CarriedWrite {
  PlacedWrite write;
  std::span<const iovec> source;
};

class MessageExchange final : public FrameExchange {
 public:
  static constexpr size_t kMaxPieces = 16;
  /// A frame may overtake so many others, and those that wait take so many bytes at most.
  static constexpr uint64_t kMostEarly = 1024;
  static constexpr uint64_t kMostEarlyBytes = 16 << 20;

  /// `memory`: of this rank, where the pipe writes into the peer's memory; else null. `copies`: the
  /// pipe has copied a frame before the next call, and reads the payload no more. `reads`:
  /// next_write() may ask for reads of the peer's memory, too.
  MessageExchange(int rank, int peer, PlacedMemory* memory = nullptr, bool copies = false,
                  bool reads = false)
      : FrameExchange(rank, peer, memory, reads), copies_(copies) {}

  /// The next frame, with at most `limit` bytes of payload; nothing: none is ready. `limit` is at
  /// least kMaxControlPayload.
  std::optional<CarriedFrame> next(uint64_t limit);
  /// The same frame with a payload of its own: the caller's memory is read no more.
  CarriedFrame keep(const CarriedFrame& frame);
  /// The pipe reads that frame no more. In any order.
  void carried(uint64_t name);
  bool idle() const { return last_words_.empty() && outbound().idle(); }

  /// A frame has come, in any order.
  void take(std::span<const std::byte> header, std::span<const std::byte> payload);

  /// The next write.
  std::optional<CarriedWrite> next_write(const Outbound::WriteLimits& limits);
  /// Its bytes are in place, or arrive there in so many segments that the other end counts. In any
  /// order.
  void written(uint64_t name, uint32_t segments = 0);
  /// It is never made.
  void abandon(uint64_t name);
  /// So many segments of the peer's write of this number have arrived.
  void arrived(uint32_t number, uint32_t segments);

 private:
  struct Flight {
    std::array<std::byte, kSequencedHeaderBytes> header;
    std::array<iovec, kMaxPieces> pieces;
    OutFrame frame;
    std::vector<std::byte> copy;  // of the payload, after keep()
    bool used = false;
  };
  struct EarlyFrame {
    FrameHeader header;
    std::vector<std::byte> payload;
  };

  void end_output() override;
  // A pipe that has a frame reads it until carried().
  void keep_output(transport::EpochId) override {}
  void keep_output(transport::ChannelId) override {}
  bool reads_output(transport::EpochId epoch) const override;
  Flight& free_flight(uint64_t& name);
  void refuse(const char* what);
  bool act(const FrameHeader& header, std::span<const std::byte> payload);
  bool is_whole(const FrameHeader& header, std::span<const std::byte> payload);
  void keep(uint64_t sequence, const FrameHeader& header, std::span<const std::byte> payload);
  void act_on_early();

  const bool copies_;
  std::deque<Flight> flights_;
  std::vector<uint64_t> free_;  // names
  std::deque<FrameHeader> last_words_;
  uint64_t sent_frames_ = 0;

  uint64_t next_sequence_ = 0;  // that is acted on
  std::map<uint64_t, EarlyFrame> early_;
  uint64_t early_bytes_ = 0;
  std::map<uint32_t, uint32_t> segments_;  // that have arrived, by number of the write
  std::map<uint64_t, std::array<iovec, kMaxPieces>> sources_;  // of writes, by name
};

}  // namespace tutti::transport::stream
