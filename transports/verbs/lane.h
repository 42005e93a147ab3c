// A queue pair of a link, with what it takes to go on without it when it fails.
//
// A lane keeps what was sent on it and is not known to have arrived. A pair delivers in order, so
// when it has failed the peer only has to say how many sends it has taken there: what lies behind
// them is sent again on another lane. Before it says so it destroys its own end, for nothing that
// is sent twice may come late and meet memory that has another use by then.
//
// Owns:     the pair. A work request's memory is the caller's until its completion, or close().
// Threads:  one at a time, the pipe's.
// Errors:   fail() keeps the first reason; kRemoteError where the peer counts what was never sent.
// Lifetime: lanes end before the completion queues of their rails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "transports/verbs/queue_pair.h"

namespace tutti::transports::verbs {

/// Why a lane ends: for the other end has, by an error of its own, or since its card got no answer.
enum class LaneFault : uint8_t { kOfPeer = 0, kError = 1, kSilence = 2 };

/// A port that a link uses, and where completions of all pairs on it are told.
struct Rail {
  std::shared_ptr<Domain> domain;
  std::unique_ptr<Completions> completions;
};

/// A piece of work that a lane was given to send.
struct LaneWork {
  uint32_t name = 0;        // its owner's
  bool is_counted = false;  // it takes a receive of the peer, who counts those
  bool is_write = false;    // it has arrived if a later counted one has
};

/// All that a failed lane had not finished.
struct LaneRest {
  std::vector<LaneWork> arrived;
  std::vector<LaneWork> lost;
};

class PairLane {
 public:
  /// The ports between which it runs, by their numbers among those of each end.
  struct LanePath {
    size_t here = 0;
    size_t there = 0;
    bool operator==(const LanePath&) const = default;
  };

  static Result<PairLane> create(size_t number, const LanePath& path, const Rail& rail,
                                 const QueuePair::PairRoom& room);

  const LanePath& path() const { return path_; }
  Adapter& adapter() const { return *adapter_; }
  const QueuePairEnd& end() const { return end_; }
  uint32_t inline_bytes() const { return pair_->inline_bytes(); }
  Status connect(const PortEnd& port, const QueuePairEnd& peer) {
    return pair_->connect(port, peer);
  }

  // ---- completions: which lane one is of, and what it ends
  static size_t number_of(const api::ibv_wc& found) { return (found.wr_id >> kLaneShift) - 1; }
  static bool is_receive(const api::ibv_wc& found) { return (found.wr_id & kReceive) != 0; }
  static uint32_t name_of(const api::ibv_wc& found) { return static_cast<uint32_t>(found.wr_id); }

  bool is_up() const { return state_ == LaneState::kUp; }
  /// The pair is destroyed, and its completions say nothing any more.
  bool is_closed() const { return state_ == LaneState::kClosed; }
  const Status& why() const { return why_; }

  /// A lane that is not up takes nothing; one that fails by it keeps the work for settle().
  void send(api::ibv_send_wr& work, LaneWork what);
  void receive(api::ibv_recv_wr& work, uint32_t name);
  /// Of a send's completion without an error: what is done. Nothing: that cannot be.
  std::optional<LaneWork> finish();
  /// A receive has come back, with something in it or without.
  void came_back(bool has_taken);
  bool is_idle() const { return journal_.empty(); }

  // ---- failure
  void fail(const Status& why, LaneFault fault = LaneFault::kError);
  LaneFault fault() const { return fault_; }
  /// It has failed, and everything that it has taken has been told.
  bool may_close(uint64_t now_ns) const;
  void close(uint64_t now_ns);
  /// It is closed, and the peer has not said for too long that it has closed its end.
  bool is_overdue(uint64_t now_ns) const;
  /// How many sends of the peer have arrived here.
  uint64_t taken() const { return taken_; }
  bool is_settled() const { return settled_; }
  /// The peer has closed its end, and so much had arrived there.
  Result<LaneRest> settle(uint64_t peer_taken);
  /// Nobody waits for what was sent any more.
  void forget_sends() { journal_.clear(); }

 private:
  enum class LaneState { kUp, kFailed, kClosed };
  static constexpr int kLaneShift = 48;
  static constexpr uint64_t kReceive = uint64_t{1} << 40;

  PairLane(size_t number, const LanePath& path, std::shared_ptr<Domain> domain,
           std::unique_ptr<QueuePair> pair);

  uint64_t tag_;
  LanePath path_;
  std::shared_ptr<Domain> domain_;
  Adapter* adapter_;
  std::unique_ptr<QueuePair> pair_;
  QueuePairEnd end_;
  LaneState state_ = LaneState::kUp;
  bool settled_ = false;
  Status why_;
  LaneFault fault_ = LaneFault::kError;
  uint64_t failed_ns_ = 0;
  uint64_t closed_ns_ = 0;
  std::deque<LaneWork> journal_;  // sent and not done, in order
  uint64_t arrived_ = 0;          // counted sends that are done
  uint64_t taken_ = 0;            // the peer's, here
  uint32_t receives_ = 0;         // that are posted
};

}  // namespace tutti::transports::verbs
