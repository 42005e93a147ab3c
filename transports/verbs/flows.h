// Writes into the peer's memory and reads of it, cut into segments that go over several queue pairs
// at once, on all ports that the two ends have.
//
// A segment goes to the lane with the fewest bytes on their way, if the peer has a receive for its
// immediate value there: the number of the write, by which the peer counts segments. Segments of
// one write arrive in any order. After half of its receives a lane's receiver says, on the lane,
// how many it has posted again. Reads take no receive. Segments that a failed lane has not brought
// over go over the others.
//
// A put, and every write where adaptive routing is asked for, goes as plain writes, which take no
// receive. Behind them each lane that carried some gets a note: a write of no bytes with the
// number, by which the peer knows that what that lane brought is there. So what the peer's
// processor does not get to holds up notes alone.
//
// Memory that is registered is used by the cards as it is; other memory through registered copies,
// a segment at a time.
//
// Owns:    that memory. Lanes are the pipe's; sources and targets the caller's until written().
// Threads: one at a time, the pipe's.
// Errors:  those of memory, and what no Tutti sends. A lane that fails says so itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "src/transport/stream/message_link.h"
#include "transports/verbs/flow_shape.h"
#include "transports/verbs/lane.h"
#include "transports/verbs/registered_ranges.h"

namespace tutti::transports::verbs {

class DataFlows {
 public:
  static QueuePair::PairRoom room(const FlowShape& shape);

  /// On lanes that have all been made by room(). `adapts`: networks may take any way for packets of
  /// writes.
  static std::unique_ptr<DataFlows> create(std::span<PairLane> lanes, const PipeGround& ground,
                                           const FlowShape& shape, bool adapts);

  uint64_t write_limit() const { return write_limit_; }
  static uint64_t one_sided_limit() { return transport::stream::kMaxPlacedBytes; }
  /// False: no room now, and the same write comes again.
  bool write(const transport::stream::CarriedWrite& write);
  /// Posts what may go now.
  Status pump();
  /// Work of that lane is done.
  void finished(size_t lane, const LaneWork& work, transport::stream::PipeEvents& events);
  /// Of a receive's completion without an error.
  Status receive(size_t lane, const api::ibv_wc& found, transport::stream::PipeEvents& events);
  /// The lane is closed at both ends: what was sent on it is done, or goes over the others.
  void settle(size_t lane, const LaneRest& rest, transport::stream::PipeEvents& events);
  /// Nothing more is sent or reported.
  void stop();

 private:
  static constexpr int kNoCopy = -1;

  /// Waits for a receive of the peer.
  struct WriteNote {
    uint32_t number = 0;
    uint64_t remote = 0;
    transport::stream::MemoryKey key;
  };
  struct DataFlow {
    uint32_t credit = 0;
    uint32_t owed = 0;
    uint32_t segments = 0;  // on their way
    uint64_t bytes = 0;     // of them
    std::deque<WriteNote> notes;
  };
  /// A write or a read whose segments are not all done.
  struct OpenWrite {
    uint64_t name = 0;
    bool is_read = false;
    bool is_plain = false;
    uint64_t remote = 0;
    transport::stream::MemoryKey key;
    uint32_t segments = 0;  // that the peer counts: notes, if it is plain
    uint32_t left = 0;      // that are not done
    uint32_t waiting = 0;   // that are not posted
    uint64_t lanes = 0;     // that shall have a note: a bit for each
  };
  struct WriteSegment {
    std::byte* local = nullptr;
    uint32_t bytes = 0;
    uint64_t remote = 0;
    uint32_t number = 0;
  };
  /// On its way, and what is not done again where it is lost.
  struct SentSegment {
    WriteSegment segment;
    int copy = kNoCopy;
    std::optional<WriteNote> note;  // in place of a segment
  };

  DataFlows(std::span<PairLane> lanes, const PipeGround& ground, const FlowShape& shape,
            bool adapts);
  void count(const SentSegment& done);
  bool has_room(size_t lane, bool takes_receive) const;
  size_t best_lane(bool takes_receive) const;
  uint32_t begin_work(size_t lane, const SentSegment& sent, bool takes_receive);
  void queue_notes(uint32_t number, OpenWrite& open);
  void post_notes();
  void post_note(size_t lane);
  void note_again(const WriteNote& note);
  Status post(size_t lane, const WriteSegment& segment, bool& posted);
  void post_receive(size_t lane);
  Result<bool> find_local(const WriteSegment& segment, bool is_read, size_t rail,
                          api::ibv_sge& piece, int& copy);
  Status prepare_copies();
  std::byte* copy_at(int copy) const;
  void grant(size_t lane);
  SentSegment take_back(size_t lane, uint32_t index);

  const std::span<PairLane> lanes_;
  const PipeGround ground_;
  const FlowShape shape_;
  const uint64_t write_limit_;
  const bool adapts_;
  bool stopped_ = false;
  std::vector<DataFlow> flows_;  // by lane
  std::deque<WriteSegment> waiting_;
  std::map<uint32_t, OpenWrite> open_;  // by number
  std::vector<SentSegment> sent_;       // by the name of the work
  std::vector<uint32_t> free_sent_;
  std::unique_ptr<CardPages> copies_;
  std::vector<int> free_copies_;
};

}  // namespace tutti::transports::verbs
