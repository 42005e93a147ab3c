// Writes into the peer's memory, cut into segments that go over several queue pairs at once.
//
// A segment goes to the pair with the fewest bytes on their way, if the peer has a receive for its
// immediate value there: the number of the write, by which the peer counts segments. Segments of
// one write arrive in any order. After half of its receives a pair's receiver says, on the pair,
// how many it has posted again.
//
// Sources that are registered are read by the card; others are copied into registered memory first,
// a segment at a time.
//
// Owns:    the pairs, and that memory. Sources are the caller's until written().
// Threads: one at a time, the pipe's.
// Errors:  those of the card, and what no Tutti sends; each is the link's.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/transport/stream/message_link.h"
#include "transports/verbs/queue_pair.h"
#include "transports/verbs/registered_ranges.h"

namespace tutti::transports::verbs {

/// The form in which a card's key for memory goes to a peer.
transport::stream::MemoryKey key_of(uint32_t remote);

class DataFlows {
 public:
  static constexpr size_t kPairs = 2;
  static constexpr uint32_t kDepth = 32;  // segments on their way on a pair
  static constexpr uint32_t kSegmentBytes = 64 * 1024;
  /// Completions that there may be at once.
  static constexpr int kCompletions = static_cast<int>(kPairs) * 2 * (static_cast<int>(kDepth) + 8);

  static Result<std::unique_ptr<DataFlows>> create(std::shared_ptr<Domain> domain,
                                                   std::shared_ptr<RegisteredRanges> ranges,
                                                   const Completions& completions);
  ~DataFlows();
  DataFlows(const DataFlows&) = delete;
  DataFlows& operator=(const DataFlows&) = delete;

  std::vector<QueuePairEnd> ends() const;
  Status connect(const PortEnd& port, std::span<const QueuePairEnd> peers);

  /// False: no room now, and the same write comes again.
  bool write(const transport::stream::CarriedWrite& write);
  /// Posts what may go now.
  Status pump();
  /// Whether the completion is of one of these pairs.
  static bool is_mine(const api::ibv_wc& found) { return found.wr_id >= kName; }
  /// Of a completion without an error.
  Status complete(const api::ibv_wc& found, transport::stream::PipeEvents& events);
  /// From now on neither end's memory is written by these pairs.
  void stop();

 private:
  static constexpr uint64_t kName = uint64_t{1} << 48;  // of a work request, and its pair above

  static constexpr int kNoCopy = -1;

  struct DataFlow {
    std::unique_ptr<QueuePair> pair;
    uint32_t credit = kDepth;
    uint32_t owed = 0;
    uint32_t segments = 0;  // on their way
    uint64_t bytes = 0;     // of them
  };
  /// A write whose segments are not all done.
  struct OpenWrite {
    uint64_t name = 0;
    uint32_t segments = 0;
    uint32_t left = 0;
  };
  struct WriteSegment {
    const std::byte* source = nullptr;
    uint32_t bytes = 0;
    uint64_t target = 0;
    uint32_t key = 0;
    uint32_t number = 0;
  };
  struct SentSegment {
    uint32_t number = 0;
    uint32_t bytes = 0;
    int copy = kNoCopy;
  };

  DataFlows(std::shared_ptr<Domain> domain, std::shared_ptr<RegisteredRanges> ranges)
      : domain_(std::move(domain)), ranges_(std::move(ranges)) {}
  DataFlow* best_flow();
  Status post(DataFlow& flow, const WriteSegment& segment, bool& posted);
  Status post_receive(size_t flow);
  Result<bool> find_source(const WriteSegment& segment, api::ibv_sge& piece, int& copy);
  Status prepare_copies();
  Status grant(size_t flow);
  Status receive(size_t flow, const api::ibv_wc& found, transport::stream::PipeEvents& events);

  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<RegisteredRanges> ranges_;
  bool stopped_ = false;
  std::vector<DataFlow> flows_;
  std::deque<WriteSegment> waiting_;
  std::map<uint32_t, OpenWrite> open_;  // by number
  std::vector<SentSegment> sent_;       // by the low part of a work request's name
  std::vector<uint32_t> free_sent_;
  std::byte* copies_ = nullptr;
  std::unique_ptr<CardMemory> copies_registration_;
  std::vector<int> free_copies_;
};

}  // namespace tutti::transports::verbs
