// Frames between two ranks as sends on a queue pair, copied into registered slots and out of them.
//
// A frame is sent only where the peer has a receive posted for it: the immediate value of every
// send says how many the sender has posted again. There are many small receives rather than few
// large ones: short messages that nobody has asked for leave though the peer does nothing.
//
// One lane carries them, and others stand by without receives. When it fails its receives are
// posted on the next one, and what the peer has not taken is sent again there, in its order.
//
// Owns:    slots. Lanes are the pipe's.
// Threads: one at a time, the pipe's.
// Errors:  what no Tutti sends. A lane that fails says so itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "src/transport/stream/message_link.h"
#include "transports/verbs/lane.h"
#include "transports/verbs/registered_ranges.h"

namespace tutti::transports::verbs {

class ControlLanes {
 public:
  /// Frames that may be on their way in one direction.
  static constexpr uint32_t kSlots = 128;
  static constexpr size_t kPayloadBytes = 4 * 1024;
  static constexpr size_t kSlotBytes = transport::stream::kSequencedHeaderBytes + kPayloadBytes;
  /// Of each lane's pair, and the completions that they make.
  static QueuePair::PairRoom room();

  static Result<std::unique_ptr<ControlLanes>> create(std::span<PairLane> lanes,
                                                      const Domains& domains,
                                                      std::shared_ptr<MovedCounts> moved);

  /// The peer is there: it has a receive for every slot.
  void begin() { credit_ = kSlots; }
  /// False: no room now.
  bool send(const transport::stream::CarriedFrame& frame);
  /// Sends what is due without a frame: receives that the peer must know of, and lost sends.
  void pump();
  /// Behind all frames; nothing is sent after it.
  void say_last_word();

  void finished(const LaneWork& work) { free_.at(class_of(work.name)).push_back(work.name); }
  /// Of a receive's completion without an error. The peer's last word is in it: true.
  Result<bool> receive(const api::ibv_wc& found, transport::stream::PipeEvents& events);

  /// The lane is closed: its receives are posted on the next one.
  void move_receives(size_t lane);
  /// Its sends are done, or made again.
  void settle(const LaneRest& rest);
  /// Nothing that was sent is on its way any more.
  bool is_idle() const;

 private:
  struct SentSlot {
    uint32_t bytes = 0;
    uint32_t immediate = 0;
  };

  ControlLanes(std::span<PairLane> lanes, std::unique_ptr<CardPages> pages,
               std::shared_ptr<MovedCounts> moved);
  static size_t class_of(uint32_t name) { return name < kSlots ? 0 : 1; }
  std::byte* at(size_t slot) const { return pages_->data() + slot * kSlotBytes; }
  api::ibv_sge piece(const PairLane& lane, size_t slot, size_t bytes) const;
  PairLane* receiving_lane();
  PairLane* sending_lane();
  void post_receive(uint32_t slot);
  void post(PairLane& lane, uint32_t name);
  void say(uint32_t flags);

  const std::span<PairLane> lanes_;
  const std::unique_ptr<CardPages> pages_;
  const std::shared_ptr<MovedCounts> moved_;
  std::vector<SentSlot> sent_;                 // by name
  std::array<std::vector<uint32_t>, 2> free_;  // names of frames, and of words without one
  std::deque<uint32_t> again_;                 // names of what is sent again, in order
  std::vector<size_t> receives_on_;            // by slot for receives: its lane
  uint32_t credit_ = 0;                        // frames that the peer has receives for
  uint32_t owed_ = 0;                          // receives that the peer does not know of
  bool has_ended_ = false;
};

}  // namespace tutti::transports::verbs
