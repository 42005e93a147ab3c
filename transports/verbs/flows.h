// Writes into the peer's memory and reads of it, cut into segments that go over several queue pairs
// at once, on all ports that the two ends have.
//
// A segment goes to the lane with the fewest bytes on their way, if the peer has a receive for its
// immediate value there: the number of the write, by which the peer counts segments. Segments of
// one write arrive in any order. After half of its receives a lane's receiver says, on the lane,
// how many it has posted again. Reads take no receive. Segments that a failed lane has not brought
// over go over the others.
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

  /// On lanes that have all been made by room().
  static std::unique_ptr<DataFlows> create(std::span<PairLane> lanes, Domains domains,
                                           std::shared_ptr<RegisteredRanges> ranges,
                                           const FlowShape& shape);

  uint64_t write_limit() const { return write_limit_; }
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

  struct DataFlow {
    uint32_t credit = 0;
    uint32_t owed = 0;
    uint32_t segments = 0;  // on their way
    uint64_t bytes = 0;     // of them
  };
  /// A write or a read whose segments are not all done.
  struct OpenWrite {
    uint64_t name = 0;
    bool is_read = false;
    transport::stream::MemoryKey key;
    uint32_t segments = 0;
    uint32_t left = 0;
  };
  struct WriteSegment {
    std::byte* local = nullptr;
    uint32_t bytes = 0;
    uint64_t remote = 0;
    uint32_t number = 0;
  };
  struct SentSegment {
    WriteSegment segment;
    int copy = kNoCopy;
  };

  DataFlows(std::span<PairLane> lanes, Domains domains, std::shared_ptr<RegisteredRanges> ranges,
            const FlowShape& shape);
  bool has_room(size_t lane) const;
  size_t best_lane() const;
  Status post(size_t lane, const WriteSegment& segment, bool& posted);
  void post_receive(size_t lane);
  Result<bool> find_local(const WriteSegment& segment, bool is_read, size_t rail,
                          api::ibv_sge& piece, int& copy);
  Status prepare_copies();
  std::byte* copy_at(int copy) const;
  void grant(size_t lane);
  SentSegment take_back(size_t lane, uint32_t index);

  const std::span<PairLane> lanes_;
  const Domains domains_;
  const std::shared_ptr<RegisteredRanges> ranges_;
  const FlowShape shape_;
  const uint64_t write_limit_;
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
