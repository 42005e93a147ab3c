// Runs plans in host memory: the caller's thread walks the lanes of one rank.
//
// A run is resumable: start() begins a call, advance() does what can be done without waiting, so an
// engine thread can drive many communicators; run() is both with waiting between. Micro-operations
// are interpreted; plans that consist of small messages only have a shorter form (fast_path.h).
//
// Owns: scratch and landing memory, reused and grown; no allocation once a plan has run. Threads:
// one at a time. Errors: the first one sticks; peers of the domain see it in the arena.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/exec/arena_map.h"
#include "src/exec/staging.h"
#include "src/exec/wait.h"
#include "src/plan/plan.h"
#include "src/transport/transport.h"

namespace tutti::exec {

/// How this rank reaches one other rank.
struct Peer {
  ArenaView arena;  // valid if the peer is in my domain
  transport::Mapped* mapped = nullptr;
  transport::Stream* stream = nullptr;
  transport::Link* link = nullptr;
};

/// Memory every rank of the domain registered together, in the same order on every rank.
struct Window {
  std::byte* mine = nullptr;
  uint64_t bytes = 0;
  std::vector<std::byte*> peers;  // the peers' ranges as they lie here; null outside the domain
};

/// Asked now and then while waiting; an error ends the run.
class Health {
 public:
  virtual ~Health() = default;
  virtual Status check() = 0;
  /// The rank that the error is about; -1 if it is about none.
  virtual int culprit() const { return -1; }
};

struct ExecutorOptions {
  int rank = 0;
  int ranks = 1;
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  uint32_t spins = 2000;
  uint64_t first_progress = 1;  // tests begin near the limits of the counters
  ArenaLayout layout{4 << 20, 0, 1};
};

struct Call {
  const void* send = nullptr;
  void* recv = nullptr;
  uint32_t signature = 1;  // 0 for send and receive only, which not all ranks take part in
  uint64_t deadline_ns = ~uint64_t{0};
  const char* what = "";  // for messages: "all_reduce"
  bool windows = false;   // send and recv lie in windows: enter with window offsets
  // For peers of other domains, which may reach their memory in another way: as `signature`, but
  // without what only ranks of one domain have in common.
  uint32_t far_signature = 1;
};

enum class Progress { kDone, kMoved, kBlocked };

class HostExecutor {
 public:
  HostExecutor(const ExecutorOptions& options, std::vector<Peer> peers, Health& health);

  Status run(const plan::Plan& plan, const Call& call);

  void start(const plan::Plan& plan, const Call& call);
  Progress advance();
  const Status& status() const { return status_; }

  /// Waits, spinning first, until `advance` says kDone; looks at failures and the deadline
  /// meanwhile.
  template <class Advance>
  Status wait(Advance advance);
  /// The peer the caller is about to wait for, for messages.
  void expect(uint32_t peer) { waiting_for_ = peer; }
  /// The call that wait() belongs to if it is not a plan.
  void name_call(const Call& call) { call_ = call; }
  /// Moves what streams can move, and looks at what is rare: for threads that drive many executors.
  bool poll_streams();
  void check_rare();

  /// Marks this rank as failed for its peers; later calls return `status`.
  void fail(Status status);

  void add_window(Window window) { windows_.push_back(std::move(window)); }
  bool has_windows() const { return !windows_.empty(); }
  bool remove_window(const void* memory);
  /// The window that holds [memory, memory + bytes); null if none.
  const Window* window_of(const void* memory, uint64_t bytes) const;

  uint32_t calls() const { return call_number_; }
  const ExecutorOptions& options() const { return options_; }
  const std::vector<Peer>& peers() const { return peers_; }

 private:
  friend class FastPath;

  struct Lane {
    uint64_t progress = 0;  // my counter at the beginning of the slice
    RingCursor<kRingRegions> ring;
    // The run in progress:
    uint64_t slice = 0;
    uint32_t op = 0;
    bool open = false;  // the slice has its frame
    std::array<uint64_t, 5> shift{};
    uint64_t piece_length = 0, piece_of = ~uint64_t{0};
    uint64_t piece_bytes = 0;
    std::vector<transport::Stream::Ticket> received, sent;
    std::vector<uint32_t> sent_to;
  };

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
  void move(Lane& lane, const plan::Op& op);
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
  void announce(const Call& call);
  void reserve(const plan::Plan& plan);
  Status diagnose(uint32_t peer);
  Status hearsay(Status status);
  Status compare_calls(uint32_t peer) const;
  void check_signature(uint32_t peer);

  ExecutorOptions options_;
  std::vector<Peer> peers_;
  Health& health_;
  ArenaView mine_;
  std::vector<uint32_t> domain_;       // the other ranks that map my arena
  std::vector<std::byte*> registers_;  // plan::register_of
  std::vector<Lane> lanes_;
  std::vector<uint64_t> passed_;  // [lane]: every rank of the domain is known to have come so far
  std::vector<Window> windows_;
  RingCursor<kCellRegions> cells_;
  uint64_t cell_shift_ = 0;
  uint32_t call_number_ = 0;
  Call call_;
  const plan::Plan* plan_ = nullptr;
  bool exposed_ = false;  // peers may touch this call's buffers, and I theirs
  bool inside_ = false;   // what Guard::inside says
  uint32_t prologue_ = 0, epilogue_ = 0;
  uint32_t waiting_for_ = 0;    // the peer of the last blocked wait, for messages
  int blamed_ = -1;             // the rank that began it, where somebody told
  uint64_t gave_up_at_ns_ = 0;  // when a peer was first seen to have failed
  bool has_streams_ = false;
  Status status_;
  std::vector<transport::Buffer> buffers_;
  std::vector<transport::ConstBuffer> const_buffers_;
  std::unique_ptr<std::byte[]> scratch_, landing_;
  uint64_t scratch_capacity_ = 0, landing_capacity_ = 0;
};

template <class Advance>
Status HostExecutor::wait(Advance advance) {
  Backoff backoff(options_.spins);
  for (;;) {
    switch (advance()) {
      case Progress::kDone:
        return status_;
      case Progress::kMoved:
        backoff.reset();
        break;
      case Progress::kBlocked:
        if (has_streams_ && poll_streams()) {
          backoff.reset();
        } else if (backoff.pause()) {
          check_rare();
        }
        break;
    }
  }
}

}  // namespace tutti::exec
