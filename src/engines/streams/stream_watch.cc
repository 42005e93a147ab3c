#include "src/engines/streams/stream_watch.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/engines/streams/watchdog.h"

namespace tutti::engines::streams {

StreamWatch::StreamWatch(StreamWords& words, ReporterOptions options, WatchOwner owner)
    : words_(words),
      rank_(options.rank),
      name_of_(options.name_of),
      device_(options.device),
      reporter_(std::move(options)),
      owner_(std::move(owner)) {}

StreamWatch::~StreamWatch() {
  if (!told_text_.empty()) Watchdog::get().tell_oldest(this, device_, "");
}

uint64_t StreamWatch::next_place() {
  const MutexLock lock(mutex_);
  return ++place_;
}

void StreamWatch::keep(PendingCall call) {
  {
    const MutexLock lock(mutex_);
    call.call.ticket = reporter_.queue(call.call.label);
    calls_.push_back(std::move(call));
  }
  Watchdog::get().wake();
}

std::optional<int> StreamWatch::find_late() {
  const MutexLock lock(mutex_);
  return calls_.empty() ? std::nullopt : words_.find_late(calls_.front());
}

void StreamWatch::abandon() {
  const MutexLock lock(mutex_);
  owner_.reset();
  reporter_.mute();
}

void StreamWatch::while_alive(const std::function<void(const WatchOwner&)>& act) {
  const MutexLock lock(mutex_);
  if (is_alive()) act(*owner_);
}

void StreamWatch::leak() {
  const MutexLock lock(mutex_);
  (void)new std::deque<PendingCall>(std::move(calls_));
  calls_.clear();
}

std::vector<PendingCall> StreamWatch::take_finished() {
  std::vector<PendingCall> finished;
  const uint64_t last = words_.finished();
  while (!calls_.empty() && calls_.front().call.place <= last) {
    reporter_.over(calls_.front().call, is_alive());
    number_ = std::max(number_, calls_.front().call.number);
    finished.push_back(std::move(calls_.front()));
    calls_.pop_front();
  }
  return finished;
}

// Of the oldest call that is not over, if there is one.
std::string StreamWatch::where() const {
  const std::string what = calls_.empty() ? "a call" : calls_.front().call.what;
  return what + " " + reporter_.manner() + " on " + name_of_(rank_);
}

// A rank that finds the difference itself can say which two calls differ.
void StreamWatch::check_peers() {
  const std::optional<diagnosis::Loss> loss = words_.find_loss();
  if (!loss) return;
  if (std::optional<CallDifference> found = find_difference(*loss)) {
    owner_->fail(std::move(found->status), {found->peer, rank_});
    return;
  }
  const std::string cause =
      loss->cause.calls_differ() ? ", since calls differ, because of " : " because of ";
  owner_->fail(Status::remote_error(where() + ": " + name_of_(loss->rank) + " gave up" + cause +
                                    name_of_(loss->cause.rank)),
               loss->cause);
}

// A rank whose calls differ from those of two others tells them one after the other, so one may
// hear of the difference before it can see its own. It waits for that, but not as long as anybody
// would notice: this holds the watchdog up, and whoever has ended meanwhile tells of nothing.
std::optional<CallDifference> StreamWatch::find_difference(const diagnosis::Loss& loss) const {
  constexpr uint64_t kMomentNs = kNanosecondsPerSecond / 10;
  const uint64_t until_ns = deadline_after(kMomentNs);
  while (true) {
    std::optional<CallDifference> found = words_.find_difference();
    const bool may_come = loss.cause.calls_differ() && words_.may_find_difference();
    if (found || !may_come || monotonic_ns() > until_ns) return found;
    std::this_thread::yield();
  }
}

// Looked at for the second time, it may wait for long.
void StreamWatch::tell_oldest() {
  const uint64_t oldest = calls_.empty() ? 0 : calls_.front().call.place;
  const bool stays = std::exchange(seen_, oldest) == oldest;
  if (device_.empty() || !stays || (oldest > 0 && told_ == oldest)) return;
  told_ = oldest;
  std::string text;
  if (oldest == 0) {
    text = words_.describe_unkept();
  } else {
    const uint64_t number = calls_.front().call.number;
    text = std::string(calls_.front().call.what) +
           (number > 0 ? " (call " + std::to_string(number) + ")" : "");
  }
  if (text == told_text_) return;
  told_text_ = text;
  Watchdog::get().tell_oldest(this, device_, std::move(text));
}

// Ranks that put calls of two communicators into streams in different orders wait for each other,
// and none of the calls is at fault.
std::string StreamWatch::other_oldest() const {
  const std::string other =
      device_.empty() ? std::string() : Watchdog::get().other_oldest(this, device_);
  if (other.empty()) return other;
  return "; " + other + " of another communicator waits on the same device, too: ranks that make " +
         "calls of two communicators in different orders wait for each other";
}

void StreamWatch::check_deadline() {
  const PendingCall& call = calls_.front();
  if (monotonic_ns() <= call.deadline_ns) return;
  std::optional<int> late = words_.find_late(call);
  if (late) late = words_.find_culprit(*late);
  owner_->fail(Status::timeout(where() + " passed its deadline: " + words_.reason(call, late) +
                               other_oldest()),
               {late.value_or(rank_), -1});
}

// A peer that lets its own streams go on lets this rank's, too, since they wait for the same words:
// so it has said before why, and this rank knows before its caller finds the stream past a call.
bool StreamWatch::look() {
  std::vector<PendingCall> finished;
  std::optional<WatchOwner> owner;
  bool has_calls = false;
  {
    const MutexLock lock(mutex_);
    if (!released_ && is_alive()) check_peers();
    finished = take_finished();
    has_calls = !calls_.empty();
    tell_oldest();
    const std::optional<int> late = has_calls ? words_.find_late(calls_.front()) : std::nullopt;
    words_.tell_wait(number_ + 1, late);
    if (has_calls) {
      const PendingCall& oldest = calls_.front();
      reporter_.look(oldest.call, late,
                     [&] { return words_.reason(oldest, words_.find_culprit(*late)); });
    }
    if (has_calls && !released_) {
      if (is_alive()) check_deadline();
      released_ = !is_alive();
    }
    if (has_calls && released_) {
      if (owner_) owner_->publish();
      words_.release();
    }
    owner = owner_;
  }
  // Of a failed communicator nobody knows whether its streams were let go on.
  for (const PendingCall& call : finished) {
    if (call.over) call.over(owner ? owner->failure() : Status());
  }
  return has_calls;
}

}  // namespace tutti::engines::streams
