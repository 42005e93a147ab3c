// Takes bytes as they come off the wire: says where the next ones shall be read to (straight into
// the targets of receives where possible), and acts on every frame as soon as it is there.
//
// Owns: a small buffer for headers and small frames. Threads: under the stream's mutex. Errors:
// fault() after commit(); then no more bytes are looked at. Memory: bounded, whatever comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "src/transport/stream/channel_table.h"
#include "src/transport/stream/outbound.h"
#include "src/transport/stream/regions.h"

namespace tutti::transport::stream {

/// Why a connection cannot go on.
struct Fault {
  enum class FaultKind { kNone, kMalformed, kMismatchHere, kMismatchThere };
  FaultKind kind = FaultKind::kNone;
  const char* what = nullptr;  // kMalformed
  transport::ChannelId channel;
  Mismatch mismatch;
};

class Inbound {
 public:
  static constexpr size_t kMaxEntries = 64;

  Inbound(ChannelTable& channels, Regions& regions, Outbound& outbound, MessagePool& pool,
          TicketWindow& tickets)
      : channels_(channels),
        regions_(regions),
        outbound_(outbound),
        pool_(pool),
        tickets_(tickets) {}

  /// Where to read to: number of entries used, never zero.
  size_t prepare(std::span<iovec> out);
  /// That many bytes were read there. False: see fault().
  bool commit(size_t count);
  const Fault& fault() const { return fault_; }
  /// Runs for every note.
  void on_note(std::function<void(transport::ChannelId)> hook) { on_note_ = std::move(hook); }

  /// Finishes what a posted receive, or a frame, has made complete on this channel.
  void settle(Channel& channel);
  /// The channel is going away; what is on its way to it is discarded.
  void forget(Channel& channel);
  /// The region is withdrawn: likewise.
  void forget(const Regions::Id& region);

 private:
  static constexpr size_t kBufferBytes = 16 * 1024;
  // Behind the rest of a large frame: the next header, and small frames, but little of a large one,
  // because what comes here is copied once more.
  static constexpr size_t kTailBytes = 2 * 1024;

  bool parse();
  bool begin(const FrameHeader& header);
  Channel* channel_of(const FrameHeader& header);
  bool sound() const { return fault_.kind == Fault::FaultKind::kNone; }
  bool begin_data(const FrameHeader& header);
  bool apply_credit(const FrameHeader& header);
  bool take_note(const FrameHeader& header);
  bool begin_put(const FrameHeader& header);
  bool begin_answer(const FrameHeader& header);
  bool accept(const char* wrong);
  bool refuse(const char* what);
  void consume_payload();
  size_t places(std::span<iovec> out) const;
  void arrived(uint64_t count);
  void take(const std::byte* source, uint64_t count);
  void finish_frame();

  ChannelTable& channels_;
  Regions& regions_;
  Outbound& outbound_;
  MessagePool& pool_;
  TicketWindow& tickets_;

  std::array<std::byte, kBufferBytes> buffer_;
  size_t begin_ = 0;  // [begin, end) was read and not yet looked at
  size_t end_ = 0;

  uint64_t payload_left_ = 0;  // of the frame that arrives now
  uint64_t direct_bytes_ = 0;  // of the last prepare(): what goes past the buffer
  // Where it goes: to one of these; none: it is discarded.
  Channel* target_ = nullptr;
  Regions::Landing landing_;
  Message* answer_ = nullptr;
  Regions::Id region_;  // landing_'s
  std::function<void(transport::ChannelId)> on_note_;
  Fault fault_;
};

}  // namespace tutti::transport::stream
