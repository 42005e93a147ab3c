// The call that a rank is in, as its peers and its user see it: number and signature, deadline,
// which peer it waits for, and whether the communicator has failed.
//
// Every kind of work runs inside of it: plans, sends and receives, window accesses. It knows no
// plan: what a work can say of itself during a long wait it says through ProgressSource.
//
// Owns:    what is known of slow calls (Stall).
// Threads: one at a time.
// Errors:  the first one sticks; peers of the domain see it in the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/base/wait.h"
#include "src/diagnosis/described_call.h"
#include "src/diagnosis/health.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/stall.h"
#include "src/exec/arena_map.h"
#include "src/plan/walk.h"
#include "src/trace/recorder.h"
#include "src/transport/transport.h"

namespace tutti::exec {

using diagnosis::Cause;
using diagnosis::Health;
using diagnosis::Loss;
using diagnosis::Stall;
using plan::Progress;

/// How this rank reaches one other rank.
struct Peer {
  ArenaView arena;  // valid if the peer is in my domain
  transport::Mapped* mapped = nullptr;
  transport::Stream* stream = nullptr;
  transport::Link* link = nullptr;
};

struct ExecutorOptions {
  int rank = 0;
  int ranks = 1;
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  uint32_t spins = 2000;
  // Tests begin near the limits of the counters: what has 32 bits begins anew behind its last.
  uint64_t first_progress = 1;
  uint32_t calls_before = 0;  // also transfers, and registered memory as far as its number goes
  ArenaLayout layout{4 << 20, 0, 1};
  StagingStores staging_stores = StagingStores::kMeasured;
  uint64_t slow_ns = ~uint64_t{0};      // after which a call is reported
  trace::Recorder* recorder = nullptr;  // told of long waits; may be null
};

struct Call {
  const void* send = nullptr;
  void* recv = nullptr;
  uint32_t signature = 1;  // 0 for send and receive only, which not all ranks take part in
  uint64_t deadline_ns = ~uint64_t{0};
  const char* what = "";    // for messages: "all_reduce"
  bool registered = false;  // send and recv lie in registrations: enter with offsets in them
  // For peers of other domains, which may reach their memory in another way: as `signature`, but
  // without what only ranks of one domain have in common.
  uint32_t far_signature = 1;
};

/// A work as it shows itself during a long wait.
class ProgressSource {
 public:
  struct StepPlace {
    uint32_t lane = 0;
    uint32_t step = 0;  // of the schedule
  };

  virtual ~ProgressSource() = default;
  /// Where it stands, if it has steps.
  virtual StepPlace step() const { return {}; }
  /// Writes the lines of the running call.
  virtual void tell_progress(trace::Recorder& recorder, const Stall& stall) const = 0;
};

class CallState {
 public:
  CallState(const ExecutorOptions& options, std::vector<Peer> peers, Health& health);
  ~CallState();
  CallState(const CallState&) = delete;
  CallState& operator=(const CallState&) = delete;

  const ExecutorOptions& options() const { return options_; }
  const std::vector<Peer>& peers() const { return peers_; }
  const ArenaView& mine() const { return mine_; }
  /// The other ranks that map my arena.
  const std::vector<uint32_t>& domain() const { return domain_; }
  bool has_streams() const { return has_streams_; }

  /// A collective begins. `source` is told to show() nothing any more before it ends.
  void begin(const Call& call, const ProgressSource* source) {
    ++number_;
    call_ = call;
    source_ = source;
    announce();
  }
  /// The call that wait() belongs to if it is no collective. `source` lives as long as it; may be
  /// null.
  void name_call(const Call& call, const ProgressSource* source = nullptr) {
    call_ = call;
    source_ = source;
    ++transfers_;
  }
  /// The next collective, where it is not the same as the last one.
  void describe(const DescribedCall& call) { log_.begin(number_ + 1, call); }
  /// Before a message of this call goes to a rank of another host.
  void announce_to(uint32_t peer);
  /// Sets the source of the call's progress for others that ask; null: there is none.
  void show(const ProgressSource* source) { source_ = source; }
  /// From now on messages to other hosts have this class of frames on their links.
  void prioritize(transport::Priority priority);
  /// Whether a thread drives the call that has others to advance: then the call stops after so many
  /// bytes, for one of higher priority to begin (HostMachine).
  void give_way(bool gives) { gives_way_ = gives; }
  bool gives_way() const { return gives_way_; }
  const Call& call() const { return call_; }
  /// Collectives so far.
  uint32_t calls() const { return number_; }
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

  /// The value of this call's flags in a slice whose flag has this progress.
  uint64_t cell_flag(uint64_t progress) const {
    return (progress & 0xffffffffu) << 32 | call_.signature;
  }
  bool is_in_same_call(uint32_t peer) const {
    const uint64_t mine = uint64_t{number_} << 32 | call_.signature;
    return peers_[peer].arena.counter(0).call.load(std::memory_order_relaxed) == mine;
  }
  /// Whether this rank and the peer, which has signalled, make the same calls. If not, it fails.
  bool agrees_with(uint32_t peer) { return is_in_same_call(peer) || compare_calls(peer); }

  /// Waits, spinning first, until `advance` says kDone; looks at failures and the deadline
  /// meanwhile, also while all goes well.
  template <class Advance>
  Status wait(Advance advance);
  /// The peer the caller is about to wait for, for messages.
  void expect(uint32_t peer) { waiting_for_ = peer; }
  /// Moves what streams can move, and looks at what is rare: for threads that drive many executors.
  bool poll_streams();
  void check_rare();
  /// The same for what never waits for long: it may be aborted, and pass its deadline.
  void check_while_moving();
  /// So many bytes were moved. False if that was enough: the call has failed.
  bool has_moved(uint64_t bytes) {
    unseen_bytes_ += bytes;
    return unseen_bytes_ < kMostUnseenBytes || check_after_moving();
  }
  /// The wait is over, and this rank does not say that it waits any more.
  void end_wait() {
    if (spoke_) [[unlikely]]
      end_long_wait();
  }

  /// Marks this rank as failed for its peers; later calls return `status`. Without a cause it is
  /// the expected peer, whose calls differ from this rank's if the usage is wrong.
  void fail(Status status);
  void fail(Status status, const Cause& cause);
  /// From now on only ranks that wait for this one learn that it fails: its last call is for those
  /// that may not be done with it.
  void begin_leaving() { leaving_ = true; }
  bool is_leaving() const { return leaving_; }
  /// Every rank learns of it after all, also if it has failed already.
  void end_leaving();
  /// True once this rank has given up, and no peer writes to memory of its calls any more. It
  /// outlives this.
  std::shared_ptr<const std::atomic<bool>> left() const { return left_; }
  /// The part of a long wait that others may ask for.
  Stall& stall() { return *stall_; }

  /// From now on, until end_exposure() or an error, peers may touch this call's buffers, and this
  /// rank theirs.
  void begin_exposure() { exposed_ = true; }
  void end_exposure() { exposed_ = false; }
  bool is_exposed() const { return exposed_; }
  /// Whether a peer has left this call, or one before it, with an error: its buffers are closed.
  bool is_shut_out();
  /// After a failure, once no work in peers' buffers is in hand any more.
  void close_buffers();

 private:
  static constexpr uint64_t kMostUnseenBytes = 64 << 20;

  // The signature that ranks compare holds all calls so far: two ranks whose calls differed once
  // differ from then on, so a mismatch that no message of its own call shows is found by the next
  // message.
  static uint32_t chained(uint32_t earlier, uint32_t signature) {
    constexpr uint32_t kOdd = 0x9e3779b1;
    return earlier * kOdd + signature;
  }
  void announce();
  void announce_far();
  bool compare_calls(uint32_t peer);
  bool check_after_moving();
  void tell_progress();
  diagnosis::LongWait wait_at(uint32_t peer) const;
  void tell(const Loss& loss);
  void end_long_wait();

  ExecutorOptions options_;
  std::vector<Peer> peers_;
  Health& health_;
  ArenaView mine_;
  std::vector<uint32_t> domain_;
  bool has_streams_ = false;

  uint32_t number_ = 0;
  CallLog log_;
  Call call_;
  const ProgressSource* source_ = nullptr;
  bool leaving_ = false;  // only ranks that wait for me are told of failures
  bool exposed_ = false;
  bool gives_way_ = false;
  transport::Priority priority_ = transport::Priority::kNormal;
  bool spoke_ = false;         // the wait took long enough to say so
  uint64_t unseen_bytes_ = 0;  // moved since the last look at what is rare
  uint32_t waiting_for_ = 0;   // the peer of the last blocked wait, for messages
  uint32_t transfers_ = 0;     // sends and receives, which have no call number
  uint32_t chain_ = 0;         // of the signatures of all calls so far
  uint32_t far_chain_ = 0;     // of the far signatures
  std::unique_ptr<Stall> stall_;
  const std::shared_ptr<std::atomic<bool>> left_ = std::make_shared<std::atomic<bool>>(false);
  Status status_;
};

inline void CallState::announce() {
  call_.signature = chain_ = chained(chain_, call_.signature);
  const uint64_t word = uint64_t{number_} << 32 | call_.signature;
  mine_.recent(number_).store(word, std::memory_order_relaxed);
  mine_.counter(0).call.store(word, std::memory_order_release);
  if (has_streams_) [[unlikely]]
    announce_far();
}

template <class Advance>
Status CallState::wait(Advance advance) {
  constexpr uint32_t kStreamPolls = 256;
  constexpr uint32_t kMovingTurns = 256;
  Backoff backoff(options_.spins);
  uint32_t moving_turns = 0;
  for (uint32_t polls = 1;; ++polls) {
    switch (advance()) {
      case Progress::kDone:
      case Progress::kFailed:
        end_wait();
        return status_;
      case Progress::kMoved:
        backoff.reset();
        if (++moving_turns % kMovingTurns == 0) check_while_moving();
        break;
      case Progress::kBlocked:
        // Movement in streams may come from the notes of others that wait, so rare checks go on.
        if (has_streams_ && poll_streams()) {
          backoff.reset();
          if (polls % kStreamPolls == 0) check_rare();
        } else if (backoff.pause() || (has_streams_ && polls % kStreamPolls == 0)) {
          check_rare();
        }
        break;
    }
  }
}

}  // namespace tutti::exec
