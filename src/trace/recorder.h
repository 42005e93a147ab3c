// The flight recorder of one communicator: its last calls, readable from outside the process.
//
// The ring is a memfd whose descriptor stays open, so that `tutti trace dump` finds it in
// /proc/PID/fd, also while the process is stopped. A small call costs a few plain stores and no
// clock: its start is known of every kSampled-th, and when it waits for long. Its exchange with
// each peer is written when it has waited for some milliseconds and now and then from there on, and
// when it fails; that of sends and receives, which may differ in peers and types, from the start.
//
// Owns:    the file and its mapping.
// Threads: queue() by the thread that queues, everything else by the one that runs calls; begin()
//          only while nothing is queued.
// Units:   bytes, nanoseconds of CLOCK_MONOTONIC.
// Errors:  create() alone; a call that finds the ring full of unfinished ones is counted and not
//          recorded.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/fork.h"
#include "src/base/status.h"
#include "src/trace/format.h"

namespace tutti::trace {

struct RecorderOptions {
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  int rank = 0;
  int ranks = 1;
  std::string host;
  uint64_t records = 1024;  // rounded up to a power of two; 0: nobody can read it
};

/// The fields of a call that are the same for each call of a plan, ready to be stored.
struct Label {
  uint64_t what = 0;
  uint64_t bytes = 0;
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

/// One direction of what a call exchanges with one peer (format.h: Line).
struct ExchangeState {
  uint32_t peer = 0;
  bool sends = false;
  uint8_t type = 0;     // of a transfer: the number of its name
  uint32_t number = 0;  // of a transfer: how many this rank has begun with this peer, this way
  uint64_t bytes = 0;
  uint64_t moved = 0;
  uint32_t messages = 0;  // a barrier's have no bytes
  uint32_t complete = 0;  // of the messages
  PeerState state = PeerState::kUnknown;
  uint32_t call = 0;   // the peer's last collective
  uint32_t blame = 0;  // whom the peer waits for, or gave up because of
};

/// A message between hosts of a call on a device (format.h: TimedMessage).
struct MessageState {
  uint32_t peer = 0;
  uint32_t lane = 0;
  bool sends = false;
  uint64_t slice = 0;
  uint64_t bytes = 0;
};

class Recorder {
 public:
  /// Calls of at least this size are always timed: two looks at the clock do not show in them.
  static constexpr uint64_t kTimedBytes = 64 << 10;

  static Result<std::unique_ptr<Recorder>> create(const RecorderOptions& options);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The number of a text in the file; 0, which reads as "?", when there is no room.
  /// Threads: one.
  uint8_t name(std::string_view text);

  /// A call begins; of a collective `number` is its call number.
  void begin(const Label& label, uint32_t number, Series series = Series::kCollective);
  /// The call that began last has ended well, if it was not queued: conclude(true) in fewer stores.
  void end();
  /// The running call has ended.
  void conclude(bool ok);
  /// Now it is known how the running call runs. Its bytes stay.
  void refine(const Label& label) { current().what.store(label.what, std::memory_order_release); }

  /// A call waits for its turn. Returns its ticket for begin_queued(); 0: it is not recorded.
  uint64_t queue(const Label& label);
  void begin_queued(uint64_t ticket, const Label& label, uint32_t number,
                    Series series = Series::kCollective);

  /// The running call waits for a peer for long: slow paths only.
  void waits_for(uint32_t peer, uint32_t lane, uint32_t step);
  /// Whether it has waited for so long that its lines should be written, or written again.
  bool lines_due(uint64_t now_ns);
  /// There is a call, and it has not ended.
  bool in_call() const { return running_ > ended_.load(std::memory_order_relaxed); }
  /// The running call has `count` lines. Returns for how many there is room: those are to be set,
  /// each time.
  uint32_t open_lines(uint64_t count);
  void set_line(uint32_t index, const ExchangeState& exchange);
  /// The running call gives the network a message of its own, or room for one. Returns its number,
  /// for end_message(); 0: the call is not recorded.
  uint64_t begin_message(const MessageState& message);
  /// It is out, or has come.
  void end_message(uint64_t number);

  std::string_view file() const { return {reinterpret_cast<const char*>(memory_), bytes_}; }

 private:
  Recorder(KeptFd fd, std::byte* memory, size_t bytes);

  Header& header() { return *reinterpret_cast<Header*>(memory_); }
  Line& line(uint64_t number) { return lines_[number & line_mask_]; }
  TimedMessage& message(uint64_t number) { return messages_[number % kTimedMessages]; }
  Record& current() { return running_ == 0 ? unrecorded_ : records_[running_ & mask_]; }
  static uint64_t stamp_start(Record& record);
  static void start_clock(Record& record, uint64_t bytes);
  bool is_unfinished(const Record& record) const;
  static uint64_t progress_of(uint32_t number, Series series) {
    return uint64_t{number} << 32 | static_cast<uint64_t>(series) << kSeriesAt |
           static_cast<uint64_t>(RecordState::kRunning);
  }
  static void write(Record& record, uint64_t order, const Label& label, uint64_t progress);

  static constexpr uint64_t kSampled = 64;  // a power of two

  const KeptFd fd_;
  std::byte* const memory_;
  const size_t bytes_;
  Record* const records_;
  const uint64_t mask_;
  Line* const lines_;
  const uint64_t line_mask_;
  TimedMessage* const messages_;
  std::atomic<uint64_t>& ended_;  // in the file
  uint64_t orders_ = 0;           // given out; by the thread that queues
  uint64_t running_ = 0;          // order of the call that runs; 0: it is not recorded
  Record unrecorded_{};
  uint64_t lines_given_ = 0;  // of all calls
  uint64_t revisions_ = 0;    // of lines
  uint64_t messages_given_ = 0;
  uint64_t first_line_ = 0;  // of the running call
  uint32_t room_ = 0;        // lines that it has
  uint64_t lined_ = 0;       // the order of the call that the last two are about
  uint64_t timed_ = 0;       // and of the one that the next is about
  uint64_t due_ns_ = 0;
  uint32_t names_ = 1;
};

inline void Recorder::write(Record& record, uint64_t order, const Label& label, uint64_t progress) {
  // Releases instead of fences: whoever sees a new word sees that `order` was taken away before.
  record.order.store(0, std::memory_order_relaxed);
  record.what.store(label.what, std::memory_order_release);
  record.bytes.store(label.bytes, std::memory_order_release);
  if (order % kSampled == 0 || label.bytes >= kTimedBytes) [[unlikely]]
    progress |= stamp_start(record);
  record.progress.store(progress, std::memory_order_release);
  record.order.store(order, std::memory_order_release);
}

inline void Recorder::begin(const Label& label, uint32_t number, Series series) {
  const uint64_t order = running_ = ++orders_;
  write(records_[order & mask_], order, label, progress_of(number, series));
}

inline void Recorder::end() {
  const Record& record = records_[running_ & mask_];
  if ((record.progress.load(std::memory_order_relaxed) & kHasStart) != 0) [[unlikely]]
    return conclude(true);
  ended_.store(running_, std::memory_order_release);
}

inline uint32_t Recorder::open_lines(uint64_t count) {
  if (running_ == 0) return 0;
  const uint64_t most = std::min((line_mask_ + 1) / 2, kMostLinesOfCall);
  const auto room = static_cast<uint32_t>(std::min(count, most));
  if (lined_ != running_ || room > room_) {
    lined_ = running_;
    first_line_ = lines_given_;
    lines_given_ += room;
    room_ = room;
  }
  Record& record = current();
  const uint64_t left_out = std::min(count - room, kMostLinesOfCall);
  record.lines.store((first_line_ & line_mask_) << 32 | uint64_t{room} << 16 | left_out,
                     std::memory_order_release);
  const uint64_t progress = record.progress.load(std::memory_order_relaxed);
  record.progress.store(progress | kHasLines, std::memory_order_release);
  return room;
}

inline void Recorder::set_line(uint32_t index, const ExchangeState& exchange) {
  Line& at = line(first_line_ + index);
  at.order.store(0, std::memory_order_relaxed);
  at.what.store(uint64_t{exchange.peer} << 32 | static_cast<uint64_t>(exchange.state) << 16 |
                    uint64_t{exchange.type} << 8 | (exchange.sends ? kLineSends : 0),
                std::memory_order_release);
  at.numbers.store(uint64_t{exchange.number} << 32 | exchange.call, std::memory_order_release);
  at.bytes.store(exchange.bytes, std::memory_order_release);
  at.moved.store(exchange.moved, std::memory_order_release);
  at.messages.store(uint64_t{exchange.complete} << 32 | exchange.messages,
                    std::memory_order_release);
  at.blame.store(exchange.blame, std::memory_order_release);
  at.order.store(line_order(running_) | (++revisions_ & kLineRevision), std::memory_order_release);
}

}  // namespace tutti::trace
