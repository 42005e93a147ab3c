// The watch over the calls that a rank has given to its streams and that they are not past yet,
// eager ones and runs of graphs alike: the watchdog looks at them. Has the communicator failed, has
// a peer given up, has a deadline passed? Then it lets the rank's streams go on, by storing into
// the words that they wait for a value that no call ever reaches. A peer that lives may still write
// its own value there, so it stores until the streams are past all. Such a store calls no driver,
// so it works while another thread is stuck there.
//
// Owns:    the calls. The words outlive it.
// Threads: keep() and next_place() by the one that puts calls into streams; all else by any.
// Errors:  of the communicator, by WatchOwner::fail.
// Units:   ns of CLOCK_MONOTONIC.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/diagnosis/loss.h"
#include "src/engines/streams/call_comparison.h"
#include "src/engines/streams/call_reporter.h"
#include "src/engines/streams/counted_words.h"
#include "src/exec/transfer.h"

namespace tutti::engines::streams {

/// The communicator whose calls are watched. Threads: any.
struct WatchOwner {
  std::function<Status()> failure;
  std::function<void(Status, diagnosis::Cause)> fail;  // the same from now on; peers see why
  std::function<void()> publish;                       // peers see why it has failed
};

/// A call that the streams were not past when they were last looked at.
struct PendingCall {
  ReportedCall call;
  uint64_t deadline_ns = 0;
  std::vector<uint64_t> awaited = {};              // the values of peers' counters; see ArenaWords
  std::vector<AwaitedWord> pair_awaited = {};      // those of words of pairs
  std::span<const exec::Transfer> transfers = {};  // of a graph's call, which has them
  std::function<void(const Status&)> over = {};    // called once, by any thread
  std::shared_ptr<const void> kept[2] = {};        // as long as the streams may read there
};

/// Stored, or added to a counter's value, to let streams go on: no call reaches it, and the cyclic
/// comparison of a stream's wait still takes it for greater.
inline constexpr uint64_t kBeyondAll = uint64_t{1} << 62;

/// The words by which the streams of a rank wait for its peers. Threads: any.
class StreamWords {
 public:
  virtual ~StreamWords() = default;
  /// The place of the last call that the streams are past.
  virtual uint64_t finished() const = 0;
  /// A rank that the call waits for, if it waits for one.
  virtual std::optional<int> find_late(const PendingCall& call) const = 0;
  /// Peers may know from now on that the first call the streams are not past is this one, and
  /// whom it waits for. Often told.
  virtual void tell_wait(uint64_t /*number*/, std::optional<int> /*late*/) {}
  /// The rank because of which `late` is late: it may wait for another one itself.
  virtual int find_culprit(int late) const { return late; }
  /// A call beside those that are kept, in which the rank or a peer waits, for people; "": none.
  virtual std::string describe_unkept() const { return {}; }
  /// Why the call is not over, for people: "it waits for rank 3 (...), which ...".
  virtual std::string reason(const PendingCall& call, std::optional<int> late) const = 0;
  /// A peer that has given up, if this rank has to follow it.
  virtual std::optional<diagnosis::Loss> find_loss() const { return std::nullopt; }
  /// Two calls that may be why.
  virtual std::optional<CallDifference> find_difference() const { return std::nullopt; }
  /// A peer has still to tell of its calls, so one may turn up.
  virtual bool may_find_difference() const { return false; }
  /// Stores a value that no call reaches into all words that the streams wait for.
  virtual void release() = 0;
};

class StreamWatch {
 public:
  StreamWatch(StreamWords& words, ReporterOptions options, WatchOwner owner);
  ~StreamWatch();
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;

  /// Of the next call, from 1.
  uint64_t next_place();
  /// From now on the watchdog looks at it.
  void keep(PendingCall call);
  /// Whether some call is not over, now. Finds out whether a peer has given up, and lets the
  /// streams go on where that is due.
  bool look();
  /// A rank that the oldest call that is not over waits for, if it waits for one.
  std::optional<int> find_late();
  /// The owner is no more: streams that still come are let go on.
  void abandon();
  /// Acts if the owner is there and has not failed; it does neither before act() has returned.
  void while_alive(const std::function<void(const WatchOwner&)>& act);
  /// Calls that cannot be waited for any more stay, with what they keep, for the process's life.
  void leak();
  /// "; all_gather ... of another communicator waits on the same device, too: ...", or nothing.
  std::string other_oldest() const;

 private:
  bool is_alive() const TUTTI_REQUIRES(mutex_) { return owner_ && owner_->failure().ok(); }
  std::string where() const TUTTI_REQUIRES(mutex_);
  void check_peers() TUTTI_REQUIRES(mutex_);
  std::optional<CallDifference> find_difference(const diagnosis::Loss& loss) const
      TUTTI_REQUIRES(mutex_);
  void check_deadline() TUTTI_REQUIRES(mutex_);
  void tell_oldest() TUTTI_REQUIRES(mutex_);
  std::vector<PendingCall> take_finished() TUTTI_REQUIRES(mutex_);

  StreamWords& words_;
  const int rank_;
  const std::function<std::string(int)> name_of_;
  const std::string device_;
  Mutex mutex_;
  CallReporter reporter_ TUTTI_GUARDED_BY(mutex_);
  std::optional<WatchOwner> owner_ TUTTI_GUARDED_BY(mutex_);  // none: it is gone
  std::deque<PendingCall> calls_ TUTTI_GUARDED_BY(mutex_);
  uint64_t place_ TUTTI_GUARDED_BY(mutex_) = 0;   // of the last call
  uint64_t number_ TUTTI_GUARDED_BY(mutex_) = 0;  // of the last call that is over
  bool released_ TUTTI_GUARDED_BY(mutex_) = false;
  // Places of calls that were the oldest: when it was last looked, and as the watchdog was told.
  uint64_t seen_ TUTTI_GUARDED_BY(mutex_) = 0, told_ TUTTI_GUARDED_BY(mutex_) = 0;
  std::string told_text_ TUTTI_GUARDED_BY(mutex_);
};

}  // namespace tutti::engines::streams
