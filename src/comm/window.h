// One-sided access: memory of every rank that its peers put to and get from, and signals beside it.
//
// Where memory is shared, a put is a copy into the peer's memory as it lies here, and a signal
// raises a counter that belongs to this rank alone among its writers, so it is one store, and
// whoever sees it sees the puts before it. Elsewhere the link does both (transport::OneSided), with
// the same counters, so that waiting for a signal is one and the same. The peer calls nothing.
//
// close() ends this rank's part: peers' operations on it are refused. The window itself stays as
// long as the communicator, because peers look at its counters to learn that.
//
// Owns: the counters; the peers' memory is mapped as long as their links. Threads and errors: as
// the communicator. Units: offsets and sizes in bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/membership.h"

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
  uint64_t times = 0;          // kWaitSignal
  Window* window = nullptr;
  // Of its run:
  transport::Stream::Ticket ticket = 0;  // 0: the link was not asked yet
  bool refused = false;                  // the peer has deregistered its part
};
inline constexpr int kAccessKinds = 4;
const char* name_of(Access::Kind kind);

/// What a rank brings to a window.
struct WindowMemory {
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  std::string handle;   // transport::MemoryHandle of the arena it lies in; "": ordinary memory
  uint64_t offset = 0;  // of `base` in that arena
  Status problem;       // not OK: this rank cannot take part, and all ranks shall know
};

/// An all-gather of one short text per rank.
using GatherTexts = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

class Window {
 public:
  static constexpr uint32_t kSignals = 16;  // for each pair of ranks: TUTTI_WINDOW_SIGNALS

  /// Collective. `region` is this rank's name for its part, never used again. `serve` makes that
  /// peers of other hosts are answered; it runs before any rank has the window.
  static Result<std::unique_ptr<Window>> create(const Membership& members, const WindowMemory& mine,
                                                transport::ChannelId region,
                                                const GatherTexts& gather,
                                                const std::function<Status()>& serve);

  /// Whether the operation can be: its peer within reach, its range and signal within bounds.
  Status check(const Access& access) const;
  /// True if it is complete; until then ask again with the same one.
  bool advance(Access& access);
  /// Of a complete operation: not OK if it had no effect, because the peer's part is no more.
  Status outcome(const Access& access) const;
  /// Ends this rank's part; nobody of this host is at its memory any more. Returns a peer of
  /// another host whose answer still reads it (ask again), or -1.
  int close();

 private:
  using Counter = std::atomic<uint64_t>;
  /// Behind the counters: ranks that copy to or from the part are inside. Those of other processes
  /// may die there.
  struct Door {
    std::atomic<uint32_t> closed;
    std::atomic<uint32_t> threads_inside;
    std::atomic<uint32_t> processes_inside;
  };
  struct Part {
    uint64_t bytes = 0;
    std::byte* memory = nullptr;  // null: out of reach
    Counter* counters = nullptr;  // the whole table of that rank
    Door* door = nullptr;
    bool thread = false;                    // of this process
    transport::OneSided* remote = nullptr;  // instead of memory and counters
    transport::Stream* stream = nullptr;    // its tickets
    transport::ChannelId region;
  };

  Window(int rank, int ranks);
  Result<std::string> open(const Membership& members, const WindowMemory& mine);
  void expose(const Membership& members, const WindowMemory& mine);
  Status connect(const Membership& members, int peer, const std::string& text);
  Result<std::byte*> map_again(std::string_view handle);
  void map_counters(Part& part, std::byte* counters) const;
  bool advance_mapped(Access& access, const Part& part);
  void touch(const Access& access, const Part& part);
  static bool advance_remote(Access& access, const Part& part);
  Status gone(const Access& access) const;
  // By the rank that is signalled, the rank that signals, and the number of the signal.
  Counter& counter(uint32_t target, uint32_t source, uint32_t signal) const {
    return parts_[target].counters[source * kSignals + signal];
  }

  uint32_t rank_;
  transport::ChannelId region_;
  transport::Arena signals_;
  std::vector<transport::Arena> counters_of_threads_;
  std::vector<Part> parts_;       // by rank
  std::vector<uint64_t> waited_;  // [source][signal]: how many this rank has waited for
};

}  // namespace tutti::comm
