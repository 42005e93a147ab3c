// One-sided access: memory of every rank that its peers put to and get from, and signals beside it.
//
// A put is a copy into the peer's memory as it lies here. A signal raises a counter that belongs to
// this rank alone among its writers, so it is one store, and whoever sees it sees the puts before
// it. The peer's processor takes no part: a window reaches the ranks that share memory with this
// one, and says of the others that it does not.
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

  /// Collective.
  static Result<std::unique_ptr<Window>> create(const Membership& members, const WindowMemory& mine,
                                                const GatherTexts& gather);

  /// Whether the operation can be: its peer within reach, its range and signal within bounds.
  Status check(const Access& access) const;
  /// True if it is complete: at once, unless it waits for signals that have not come.
  bool advance(const Access& access);

 private:
  using Counter = std::atomic<uint64_t>;
  struct Part {
    uint64_t bytes = 0;
    std::byte* memory = nullptr;  // null: out of reach
    Counter* counters = nullptr;  // the whole table of that rank
  };

  Window(int rank, int ranks);
  Status connect(const Membership& members, int peer, const std::string& text);
  // By the rank that is signalled, the rank that signals, and the number of the signal.
  Counter& counter(uint32_t target, uint32_t source, uint32_t signal) const {
    return parts_[target].counters[source * kSignals + signal];
  }

  uint32_t rank_;
  transport::Arena signals_;
  std::vector<Part> parts_;       // by rank
  std::vector<uint64_t> waited_;  // [source][signal]: how many this rank has waited for
};

}  // namespace tutti::comm
