// Runs plans in host memory: the caller's thread walks the lanes of one rank.
//
// A run is resumable: start() begins a call, advance() does what can be done without waiting, so an
// engine thread can drive many communicators; run() is both with waiting between. Micro-operations
// are interpreted; plans of one lane and one slice may have a shorter form (fast_path.h).
//
// Owns: scratch and landing memory, reused and grown; no allocation once a plan has run. Threads:
// one at a time. Errors: the first one sticks; peers of the domain see it in the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/exec/arena_map.h"
#include "src/exec/loss.h"
#include "src/exec/populate.h"
#include "src/exec/prefetch.h"
#include "src/exec/staging.h"
#include "src/exec/staging_stores.h"
#include "src/exec/wait.h"
#include "src/plan/exchange.h"
#include "src/plan/plan.h"
#include "src/trace/recorder.h"
#include "src/transport/import.h"
#include "src/transport/transport.h"

namespace tutti::exec {

/// How this rank reaches one other rank.
struct Peer {
  ArenaView arena;  // valid if the peer is in my domain
  transport::Mapped* mapped = nullptr;
  transport::Stream* stream = nullptr;
  transport::Link* link = nullptr;
};

/// Memory every rank of the domain registered together, for collectives.
struct Registration {
  static constexpr uint32_t kNone = 0;
  // In a word between ranks: the number above the offset.
  static constexpr int kOffsetBits = 40;
  static constexpr uint64_t kMaxBytes = uint64_t{1} << kOffsetBits;
  static constexpr uint32_t kNumbers = 1u << (64 - kOffsetBits);

  std::byte* mine = nullptr;
  uint64_t bytes = 0;             // at most kMaxBytes
  uint32_t number = kNone;        // below kNumbers; how ranks name it to each other
  std::vector<std::byte*> peers;  // the peers' ranges as they lie here; null outside the domain
  std::vector<transport::Import> imports;  // keep them there
  std::shared_ptr<const void> owner;       // keeps `mine`, whoever frees it meanwhile
};

/// Asked now and then while waiting, and while much is moved; an error ends the run.
class Health {
 public:
  virtual ~Health() = default;
  virtual Status check() = 0;
  /// Whom the error is about; not known if it is about nobody.
  virtual Cause cause() const { return {}; }
  /// A rank as messages name it.
  virtual std::string name_of(int rank) const { return "rank " + std::to_string(rank); }
  /// "because of rank 3"
  std::string because_of(const Cause& cause) const;
  /// A call is slow, and this is why.
  virtual void report(const std::string& /*text*/) {}
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

/// Where a call stands that waits for long.
struct LongWait {
  const Call* call = nullptr;
  uint32_t number = 0;     // of the call
  uint32_t transfers = 0;  // so far: send and receive have no number
  uint32_t peer = 0;       // whom it waits for
  uint32_t lane = 0;
  uint32_t step = 0;
};

class Stall;

/// Knows how far a call has come that is not a plan.
class ProgressSource {
 public:
  virtual ~ProgressSource() = default;
  /// Writes the lines of the running call.
  virtual void tell_progress(trace::Recorder& recorder, const Stall& stall) const = 0;
};

enum class Progress { kDone, kMoved, kBlocked };

class HostExecutor {
 public:
  HostExecutor(const ExecutorOptions& options, std::vector<Peer> peers, Health& health);
  ~HostExecutor();

  Status run(const plan::Plan& plan, const Call& call);

  /// The next call, where it is not the same as the last one.
  void describe(const DescribedCall& call) { log_.begin(call_number_ + 1, call); }
  void start(const plan::Plan& plan, const Call& call);
  Progress advance();
  const Status& status() const { return status_; }

  /// Waits, spinning first, until `advance` says kDone; looks at failures and the deadline
  /// meanwhile, also while all goes well.
  template <class Advance>
  Status wait(Advance advance);
  /// The peer the caller is about to wait for, for messages.
  void expect(uint32_t peer) { waiting_for_ = peer; }
  /// The call that wait() belongs to if it is not a plan. `source` lives as long as it; may be
  /// null.
  void name_call(const Call& call, const ProgressSource* source = nullptr) {
    call_ = call;
    source_ = source;
    ++transfers_;
  }
  /// Moves what streams can move, and looks at what is rare: for threads that drive many executors.
  bool poll_streams();
  void check_rare();
  /// The same for what never waits for long: it may be aborted, and pass its deadline.
  void check_while_moving();
  /// The wait is over, and this rank does not say that it waits any more.
  void end_wait() {
    if (spoke_) [[unlikely]]
      end_long_wait();
  }

  /// Marks this rank as failed for its peers; later calls return `status`. Without a cause it is
  /// the expected peer: whose calls differ from this rank's, if the usage is wrong.
  void fail(Status status);
  void fail(Status status, const Cause& cause);
  /// From now on nobody but who waits for this rank learns that it fails: its last call is for
  /// those who may not be done with it.
  void begin_leaving() { leaving_ = true; }
  bool is_leaving() const { return leaving_; }
  /// Everybody learns of it after all, also if it has failed already.
  void end_leaving();
  /// For those who use staging memory beside the plans.
  StagingWriter& staging_writer() { return write_staging_; }
  StagingReader& staging_reader() { return read_staging_; }
  /// What of a long wait others may ask for.
  Stall& stall() { return *stall_; }

  /// Returns the number it gets here: ranks add them in the same order, and may remove them in any.
  /// kNone if an old one still has that number.
  uint32_t add_registration(Registration made);
  bool has_registrations() const { return !registrations_.empty(); }
  /// Not while a call uses it. Whoever drops what it returns gives the memory back.
  Registration remove_registration(uint32_t number);
  /// The registration that holds [memory, memory + bytes); null if none.
  const Registration* registration_of(const void* memory, uint64_t bytes) const;

  /// The scratch memory of the last run (of one slice); valid until the next.
  const std::byte* scratch() const { return scratch_.get(); }

  /// Before a call is looked up: the lines it will probably store to are in the caches of those who
  /// read them last, and come back meanwhile.
  void claim_cells() const {
    prefetch_to_write(next_stored_);
    for (uint32_t line = 1; line < next_lines_; ++line) {
      prefetch_to_write(static_cast<const std::byte*>(next_stored_) + line * kPrefetchedBytes);
    }
  }

  uint32_t calls() const { return call_number_; }
  const ExecutorOptions& options() const { return options_; }
  const std::vector<Peer>& peers() const { return peers_; }

 private:
  friend class FastPath;

  struct Lane {
    uint64_t progress = 0;  // my counter at the beginning of the slice
    RingCursor<kRingRegions> ring;
    PopulatedRing populated;
    // The run in progress:
    uint64_t slice = 0;
    uint32_t op = 0;
    bool open = false;  // the slice has its frame
    std::array<uint64_t, 5> shift{};
    StagingMark mark{0};  // of the peer that was waited for last, and who that is
    uint32_t marked_by = 0;
    uint64_t piece_length = 0, piece_of = ~uint64_t{0};
    uint64_t piece_bytes = 0;
    std::vector<transport::Stream::Ticket> received, sent;
    std::vector<uint32_t> sent_to;
  };

  const Registration* numbered(uint32_t number) const;
  Progress advance_plan();
  Progress advance_among_buffers();
  void close_buffers();
  bool advance_prologue();
  bool advance_lane(uint32_t index);
  bool advance_epilogue();
  void open_slice(Lane& lane, uint32_t index);
  void close_slice(Lane& lane, uint32_t index);
  bool execute(Lane& lane, uint32_t index, const plan::Op& op);
  bool execute_stream(Lane& lane, uint32_t index, const plan::Op& op);
  bool credit(Lane& lane, uint32_t index);
  bool passed(uint32_t lane, uint64_t progress);
  bool reached(uint32_t peer, uint32_t lane, uint64_t progress);
  bool is_shut_out();
  bool move(Lane& lane, uint32_t index, const plan::Op& op);
  template <class Read>
  void read_staging(const Lane& lane, uint32_t owner, uint64_t bytes, Read&& read);
  bool has_moved(uint64_t bytes);
  bool move_in_pieces(const plan::Op& op, types::FoldCall call, std::byte** targets,
                      const std::byte** sources);
  bool read_peer(Lane& lane, const plan::Op& op);
  void enter();
  bool entered(uint32_t peer);
  bool after(const Lane& lane, const plan::Op& op) const;
  void set_piece(Lane& lane, uint64_t length);
  std::byte* address(const Lane& lane, const plan::Operand& operand) const {
    return registers_[operand.base] + operand.offset +
           lane.shift[static_cast<uint32_t>(operand.shift)];
  }
  uint64_t cell_flag(uint64_t progress) const {
    return (progress & 0xffffffffu) << 32 | call_.signature;
  }
  // The signature that ranks compare holds all calls so far: two ranks whose calls differed once
  // differ from then on, so a mismatch that no message of its own call shows is found by the next
  // message.
  static uint32_t chained(uint32_t earlier, uint32_t signature) {
    constexpr uint32_t kOdd = 0x9e3779b1;
    return earlier * kOdd + signature;
  }
  void announce();
  void reserve(const plan::Plan& plan);
  uint64_t take_frame(uint32_t index, const plan::LanePlan& plan);
  bool is_in_same_call(uint32_t peer) const {
    const uint64_t mine = uint64_t{call_number_} << 32 | call_.signature;
    return peers_[peer].arena.counter(0).call.load(std::memory_order_relaxed) == mine;
  }
  void check_signature(uint32_t peer);
  void announce_far();
  void tell_progress();
  void tell_lines();
  bool has_posted(const Lane& lane) const;
  bool is_complete(const plan::Plan& plan, const plan::Exchange& exchange) const;
  void add_to_tally(const plan::Plan& plan, const plan::Exchange& exchange);
  LongWait wait_at(uint32_t peer) const;
  void tell(const Loss& loss);
  void end_long_wait();

  ExecutorOptions options_;
  std::vector<Peer> peers_;
  Health& health_;
  ArenaView mine_;
  std::vector<uint32_t> domain_;       // the other ranks that map my arena
  std::vector<std::byte*> registers_;  // plan::register_of
  std::vector<Lane> lanes_;
  std::vector<uint64_t> passed_;  // [lane]: every rank of the domain is known to have come so far
  std::vector<Registration> registrations_;
  uint32_t last_number_ = Registration::kNone;
  CellCursor<kCellRegions> cells_;
  PopulatedRing populated_cells_;
  uint64_t cell_shift_ = 0;
  // What the next call claims: at least one line, which may be one that nobody else has. To look
  // first whether there is any costs what claiming gains.
  const void* next_stored_ = this;
  uint32_t next_lines_ = 1;
  uint32_t call_number_ = 0;
  CallLog log_;
  Call call_;
  const plan::Plan* plan_ = nullptr;        // null between calls; a FastPath shows it during looks
  const ProgressSource* source_ = nullptr;  // knows of a call that is no plan
  bool leaving_ = false;                    // who does not wait for me is not told of failures
  bool exposed_ = false;                    // peers may touch this call's buffers, and I theirs
  bool spoke_ = false;                      // the wait took long enough to say so
  uint64_t unseen_bytes_ = 0;               // moved since somebody looked at what is rare
  uint32_t prologue_ = 0, epilogue_ = 0;
  uint32_t waiting_for_ = 0;  // the peer of the last blocked wait, for messages
  uint32_t transfers_ = 0;    // sends and receives, which have no call number
  uint32_t chain_ = 0;        // of the signatures of all calls so far
  uint32_t far_chain_ = 0;    // of the far signatures
  bool has_streams_ = false;
  // What a call that waits for long exchanges: by rank and direction, filled when it is told.
  struct Tally {
    uint64_t bytes = 0, moved = 0;
    uint32_t messages = 0, complete = 0;
  };
  std::vector<Tally> tally_;
  StagingWriter write_staging_;
  StagingReader read_staging_;
  std::unique_ptr<Stall> stall_;
  Status status_;
  std::vector<transport::Buffer> buffers_;
  std::vector<transport::ConstBuffer> const_buffers_;
  std::unique_ptr<std::byte[]> scratch_, landing_;
  uint64_t scratch_capacity_ = 0, landing_capacity_ = 0;
};

// The frame of the lane's next slice, from the beginning of its ring.
inline uint64_t HostExecutor::take_frame(uint32_t index, const plan::LanePlan& plan) {
  Lane& lane = lanes_[index];
  const uint64_t frame = lane.ring.take(plan.frame_bytes, lane.progress, plan.region_bytes);
  const uint64_t bytes = options_.layout.ring_bytes;
  lane.populated.reach(mine_.rings() + index * bytes, bytes, frame, frame + plan.frame_bytes);
  return frame;
}

inline void HostExecutor::announce() {
  call_.signature = chain_ = chained(chain_, call_.signature);
  const uint64_t word = uint64_t{call_number_} << 32 | call_.signature;
  mine_.recent(call_number_).store(word, std::memory_order_relaxed);
  mine_.counter(0).call.store(word, std::memory_order_release);
  if (has_streams_) [[unlikely]]
    announce_far();
}

// Reads what lies in the slots of `owner`; if that has timed the move that wrote it, so does this
// rank.
template <class Read>
void HostExecutor::read_staging(const Lane& lane, uint32_t owner, uint64_t bytes, Read&& read) {
  const StagingMark mark = lane.marked_by == owner ? lane.mark : StagingMark(0);
  read_staging_(bytes, mark, lane.progress, 1, std::forward<Read>(read));
}

template <class Advance>
Status HostExecutor::wait(Advance advance) {
  constexpr uint32_t kStreamPolls = 256;
  constexpr uint32_t kMovingTurns = 256;
  Backoff backoff(options_.spins);
  uint32_t moving_turns = 0;
  for (uint32_t polls = 1;; ++polls) {
    switch (advance()) {
      case Progress::kDone:
        end_wait();
        return status_;
      case Progress::kMoved:
        backoff.reset();
        if (++moving_turns % kMovingTurns == 0) check_while_moving();
        break;
      case Progress::kBlocked:
        // What moves in streams may be the notes of others that wait: no reason not to look.
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
