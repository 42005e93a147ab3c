// The flight recorder of one communicator: its last calls, readable from outside the process.
//
// The ring is a memfd whose descriptor stays open, so that `tutti trace dump` finds it in
// /proc/PID/fd, also while the process is stopped. A small call costs a few plain stores and no
// clock: small calls are timed only every kSampled-th, and when they wait for long.
//
// Owns: the file and its mapping. Threads: queue() by the thread that queues, everything else by
// the one that runs calls; record() only while nothing is queued. Units: bytes, nanoseconds of
// CLOCK_MONOTONIC. Errors: create() alone; a call that finds the ring full of unfinished ones is
// counted and not recorded.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/io.h"
#include "src/base/status.h"
#include "src/trace/format.h"

namespace tutti::trace {

struct RecorderOptions {
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  int rank = 0;
  int ranks = 1;
  std::string host;
  uint64_t records = 1024;  // rounded up to a power of two
};

/// What a call is, ready to be stored: made once per plan.
struct Label {
  uint64_t what = 0;
  uint64_t bytes = 0;
  uint64_t untimed = 0;  // the clock is read where order & untimed is 0
};

/// The parts of a label, by number of their names.
struct Description {
  uint8_t collective = 0;
  uint8_t type = 0;
  uint8_t op = 0;
  uint8_t algorithm = 0;
  int root = -1;  // or peer
  uint64_t bytes = 0;
};
Label label_of(const Description& description);

class Recorder {
 public:
  static Result<std::unique_ptr<Recorder>> create(const RecorderOptions& options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The number of a text in the file; 0, which reads as "?", when there is no room. Threads: one.
  uint8_t name(std::string_view text);

  /// A call begins. `number` is its call number, 0 for send and receive.
  void begin(const Label& label, uint32_t number);
  /// The call that began last has ended.
  void finish(bool ok);

  /// A call waits for its turn. Returns its ticket for begin_queued(); 0: it is not recorded.
  uint64_t queue(Label label);
  void begin_queued(uint64_t ticket, const Label& label, uint32_t number);

  /// The running call waits for a peer for long: slow paths only.
  void waits_for(uint32_t peer, uint32_t lane, uint32_t step);

  std::string_view file() const { return {reinterpret_cast<const char*>(memory_), bytes_}; }

 private:
  Recorder(Fd fd, std::byte* memory, size_t bytes);

  Header& header() { return *reinterpret_cast<Header*>(memory_); }
  static uint64_t stamp_start(Record& record);
  static uint64_t stamp_end(Record& record);
  static void write(Record& record, uint64_t order, const Label& label, uint64_t progress);

  const Fd fd_;
  std::byte* const memory_;
  const size_t bytes_;
  Record* const records_;
  const uint64_t mask_;
  uint64_t orders_ = 0;  // given out; by the thread that queues
  Record* current_;      // of the call that runs; one outside the ring if it has none
  Record unrecorded_{};
  uint32_t names_ = 1;
};

inline void Recorder::write(Record& record, uint64_t order, const Label& label, uint64_t progress) {
  // Releases instead of fences: whoever sees a new word sees that `order` was taken away before.
  record.order.store(0, std::memory_order_relaxed);
  record.what.store(label.what, std::memory_order_release);
  record.bytes.store(label.bytes, std::memory_order_release);
  if ((order & label.untimed) == 0) [[unlikely]]
    progress |= stamp_start(record);
  record.progress.store(progress, std::memory_order_release);
  record.order.store(order, std::memory_order_release);
}

inline void Recorder::begin(const Label& label, uint32_t number) {
  const uint64_t order = ++orders_;
  Record& record = records_[order & mask_];
  current_ = &record;
  write(record, order, label, uint64_t{number} << 32 | static_cast<uint64_t>(State::kRunning));
}

inline void Recorder::finish(bool ok) {
  Record& record = *current_;
  uint64_t progress = record.progress.load(std::memory_order_relaxed);
  if ((progress & kHasStart) != 0) [[unlikely]]
    progress |= stamp_end(record);
  const State state = ok ? State::kDone : State::kFailed;
  record.progress.store((progress & ~kStateMask) | static_cast<uint64_t>(state),
                        std::memory_order_release);
}

}  // namespace tutti::trace
