// Writes that a transport makes into its peer's memory by itself: where a channel's bytes may go,
// and which writes are under way.
//
// The receiver says by TARGET frames where the bytes of a posted receive lie. The sender has the
// transport write there, and says by a PLACED frame, behind the bytes, how far it has come. Writes
// may end in any order; those of one line (a channel; all puts) are told in the order of the bytes.
//
// Owns:    nothing of the caller's. Threads: under the stream's mutex. Units: bytes, positions.
// Errors:  a const char* says what the peer did wrong; null is fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "src/transport/stream/frame.h"
#include "src/transport/stream/message.h"

namespace tutti::transport::stream {

/// A write that the transport shall make, or a read; it reports its end by its name.
struct PlacedWrite {
  uint64_t name = 0;
  uint32_t number = 0;  // the same on both ends: the receiver counts its segments by it
  transport::ChannelId channel;
  bool is_read = false;  // from there into the pieces
  bool is_put = false;   // into a region, whose owner may be doing something else
  size_t pieces = 0;     // of this rank's memory
  uint64_t bytes = 0;
  KeyedPlace place;  // in the peer's memory
};

/// Where positions of a channel lie in the peer's memory.
class Targets {
 public:
  static constexpr size_t kMost = 1024;  // of posted receives, each of kPlacedBytes at least

  const char* add(uint64_t position, uint64_t bytes, const KeyedPlace& place);
  /// The target of this position and its rest; null: it has none. Forgets those that lie before.
  const KeyedPlace* find(uint64_t position, uint64_t& rest);

 private:
  struct PlacementTarget {
    uint64_t position;
    uint64_t bytes;
    KeyedPlace place;
  };
  std::deque<PlacementTarget> targets_;  // rising
  KeyedPlace found_;
};

class PlacedWrites {
 public:
  static constexpr size_t kMost = 64;  // at a time
  using Line = void*;

  /// An ended write whose bytes the peer is to be told of. Where its line has been dropped (null),
  /// the peer has counted segments of it and is to forget them.
  struct WrittenFrame {
    FrameHeader header;
    Line line = nullptr;
    uint64_t bytes = 0;
    uint32_t number = 0;
    uint32_t segments = 0;
  };

  bool full() const { return flights_.size() >= kMost; }
  /// `header` describes the bytes as if they were a frame's payload.
  PlacedWrite begin(Line line, const FrameHeader& header, Message* message);
  struct EndedPlacement {
    bool known = false;  // there was a write of this name
    Message* message = nullptr;
  };
  EndedPlacement end(uint64_t name, uint32_t segments);
  /// Null: there is none of this name.
  Message* message_of(uint64_t name) const;
  /// Those that may be told now, in order.
  std::vector<WrittenFrame> take_told();
  bool has_any(const void* line) const;
  bool has_any_to(const transport::ChannelId& region, const void* line) const;
  /// Whether one reads memory of a channel or a put of this epoch.
  bool has_any_in(transport::EpochId epoch) const;
  /// No bytes of this line are told of any more.
  void drop(Line line);

 private:
  struct PlacedFlight {
    uint64_t name;
    WrittenFrame write;
    Message* message;
    bool ended;
  };
  std::vector<PlacedFlight> flights_;  // in the order of their beginnings
  uint64_t last_name_ = 0;
};

}  // namespace tutti::transport::stream
