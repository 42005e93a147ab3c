// One-sided access: memory of every rank that its peers put to and get from, and signals beside it.
//
// On one host a put is a copy into the peer's memory, as it lies here or, ordinary memory of
// another process, by a single copy of the kernel's (transport::Mapped::write). A signal raises a
// counter that belongs to this rank alone among its writers, so it is one store, and whoever sees
// it sees the puts before it. Elsewhere the link does both (transport::OneSided), with the same
// counters, so that waiting for a signal is one and the same. The peer calls nothing.
//
// An edit makes the window anew beside the old one, over the same memory; signals go on by members.
//
// close() ends this rank's part: peers' operations on it are refused. They learn that from its
// board, which each rank of the host has mapped as long as its own window lives: the file is gone
// with the last of them.
//
// A part in device memory is reached by streams of the ranks of its host alone: copies_of() says
// what a stream is to copy, and while it holds that, this rank is inside the part. When it is past
// the copies, advance() does the rest.
//
// Owns: its board, and mappings of the peers' boards and memory. Threads and errors: as the
// communicator. Units: offsets and sizes in bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/membership.h"
#include "src/comm/shared_part_state.h"
#include "src/exec/device_memory.h"
#include "src/exec/host_executor.h"
#include "src/exec/staging.h"
#include "src/transport/import.h"

namespace tutti::comm {

class Window;

/// One operation on a window.
struct Access {
  enum class Kind : uint8_t { kPut, kGet, kSignal, kWaitSignal };
  Kind kind = Kind::kSignal;
  bool then_signal = false;  // a put
  uint32_t peer = 0;
  uint32_t signal = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::byte* local = nullptr;  // a put only reads it
  bool by_stream = false;      // the peer's part is in device memory: a stream moves the bytes
  bool was_open = false;       // by_stream: the part was when the stream got its copies
  uint64_t times = 0;          // kWaitSignal
  Window* window = nullptr;
  // Of its run:
  uint64_t moved = 0;                    // of the bytes, on one host
  uint64_t lost_ns = 0;                  // since when the peer's memory is gone though it lives
  transport::Stream::Ticket ticket = 0;  // 0: the link was not asked yet
  Status problem;                        // not OK: it had no effect, or not all of it
};
inline constexpr int kAccessKinds = 4;
const char* name_of(Access::Kind kind);

/// The memory that a rank brings to a window, or to a registration for collectives.
struct WindowMemory {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  std::string handle;      // transport::MemoryHandle of the arena it lies in; "": ordinary memory
  uint64_t offset = 0;     // of `base` in that arena
  bool on_device = false;  // device memory, without a handle here
  std::shared_ptr<const void> owner;  // of that arena: it stays for as long as it is used
  Status problem;  // not OK: this rank cannot take part, and all ranks shall know
  // Of a window in an epoch that follows an edit:
  const Window* before = nullptr;  // the same one of this rank in the epoch that ends; its signals
                                   // go on, and nobody raises them there any more
  bool is_absent = false;          // this rank has no part of it, and only says so
};

/// The words in which a rank tells the others of its share in a common step; and their meaning for
/// the others: `problem`, or kRemoteError with its words where a third rank is the cause.
std::string outcome_of(const Status& status);
Status problem_of(const std::string& outcome, const Status& problem);

/// An all-gather of one short text per rank.
using GatherTexts = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

/// Device memory of the ranks of a host, as this rank's device reaches it.
struct DeviceParts {
  std::shared_ptr<const exec::PeerMemory> memory;
  std::vector<std::byte*> begins;  // by rank; null: it has none, or this rank does not reach it
};

/// Collective: what ranks bring of devices' memory, or that they bring none, becomes known to the
/// others of their host.
using ShareDevices = std::function<Result<DeviceParts>(const WindowMemory& mine)>;

/// The steps of making a window that all ranks do together.
struct WindowSteps {
  GatherTexts gather;
  /// Peers of other hosts are answered from then on.
  std::function<Status()> serve;
  /// Where some rank's part lies on a device.
  ShareDevices share;
};

class Window {
 public:
  static constexpr uint32_t kSignals = SharedPartState::kSignals;

  /// Collective. `region` is this rank's name for its part, never used again. Peers are served
  /// before any rank has the window. A rank that is absent gets one that nobody uses.
  static Result<std::unique_ptr<Window>> create(const Membership& members, const WindowMemory& mine,
                                                transport::ChannelId region,
                                                const WindowSteps& steps);

  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Whether the operation can be: its peer within reach, its range and signal within bounds.
  Status check(const Access& access) const;
  /// Whether the peer's part is in the memory of a device.
  bool is_on_device(uint32_t peer) const {
    return peer < parts_.size() && parts_[peer].is_on_device;
  }
  /// The copy of a stream for an access by_stream, whose local buffer it reaches. `captured`:
  /// nobody waits for the graphs that hold it; else this rank is inside the part for as long as the
  /// copies are held, and the access was_open. kInvalidUsage: the part has ended.
  Result<exec::DeviceCopies> copies_of(Access& access, bool captured) const;
  /// kDone: it is over, see Access::problem; until then ask again with the same one. kMoved: there
  /// is more to copy, and it is time to look at failures. One whose peer is dead or failed is never
  /// over: why, the caller finds where it looks at failures.
  exec::Progress advance(Access& access);
  /// Ends this rank's part. Returns a peer that is still at its memory (ask again), or -1. From any
  /// thread, and so the following.
  int close();
  /// After a failure: the links of peers to whom an answer is still read from the part are ended.
  void cut_off();
  /// After a failure: peers begin nothing any more, and find out why; close() changes nothing then.
  void shut();
  /// A peer of this host that lives and is at this rank's memory; -1: none. After shut() nobody
  /// comes, and peers of other hosts write only where somebody moves their links.
  int who_is_inside() const;
  /// After a failure: `outcome` if nobody can touch the part any more, else an error of that
  /// failure's kind. A process that was stopped inside goes on when it is let, whatever this rank
  /// does.
  Status left_alone(const Status& failure, const Status& outcome, uint64_t patience_ns) const;

  /// Equal on all ranks, and rising in the order in which windows were made.
  uint32_t number() const { return region_.lane; }
  /// This rank's part, as it was brought.
  const WindowMemory& memory() const { return mine_; }
  /// Gets of no bytes. When all of them are over, what this rank has put to peers is there.
  std::vector<Access> flushes();
  /// While it is barred, a process of this host begins nothing in this rank's part.
  void bar(int peer, bool out) const;
  /// Whether that process is at this rank's part.
  bool is_inside(int peer) const;
  /// Whether it has graphs that put into this rank's part: no bar keeps them out.
  bool has_captured_puts(int peer) const;

 private:
  struct WindowPart {
    uint64_t bytes = 0;
    transport::Import arena;            // its memory lies in; may be none
    std::byte* memory = nullptr;        // as it lies here; null: it does not
    std::shared_ptr<const void> owner;  // of this rank's own
    bool is_on_device = false;
    std::byte* device = nullptr;          // instead of `memory`, as this rank's device reaches it
    transport::Mapped* copies = nullptr;  // instead: by single copies
    uint64_t address = 0;                 // of the memory, as its owner sees it
    transport::Import memory_of_board;
    SharedPartState board;
    bool thread = false;                    // of this process
    bool is_absent = false;                 // the peer has ended its part in an earlier epoch
    transport::OneSided* remote = nullptr;  // instead of memory and board
    transport::Stream* stream = nullptr;    // its tickets
    transport::Link* link = nullptr;
    transport::ChannelId region;
  };

  struct Holders;
  class Holding;
  class CapturedPuts;
  class CapturedPut;

  explicit Window(const Membership& members);
  static std::shared_ptr<Holders> make_holders();
  static std::shared_ptr<CapturedPuts> make_captured_puts();
  Result<std::string> open(const WindowMemory& mine);
  Status discard(const Status& problem, bool refused);
  void expose(const WindowMemory& mine);
  void take_signals(const Window& before);
  void take_captured_puts(const Window& before);
  Status connect(int peer, const std::string& text, const DeviceParts& devices);
  Status check_device_part(const Access& access) const;
  Status find_memory(int peer, std::string_view handle, uint64_t offset);
  exec::Progress advance_here(Access& access, const WindowPart& part) const;
  exec::Progress finish_by_stream(Access& access, const WindowPart& part) const;
  bool touch(Access& access, const WindowPart& part) const;
  void raise_signal(const Access& access, const WindowPart& part) const;
  void note_failed_copy(Access& access, const WindowPart& part, const Status& problem) const;
  bool advance_remote(Access& access, const WindowPart& part) const;
  Status gone(const Access& access) const;
  Status out_of_reach(const Access& access) const;

  const Membership& members_;
  const uint32_t rank_;
  transport::ChannelId region_;
  WindowMemory mine_;
  transport::Arena memory_of_board_;
  std::shared_ptr<const exec::PeerMemory> device_memory_;  // that parts of this host lie in
  std::vector<WindowPart> parts_;                          // by rank
  std::vector<uint64_t> waited_;            // [source][signal]: how many this rank has waited for
  const std::shared_ptr<Holders> holders_;  // with the copies of this rank's streams
  std::shared_ptr<CapturedPuts> captured_;  // of this rank's graphs, with the windows of all epochs
};

}  // namespace tutti::comm
