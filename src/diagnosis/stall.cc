#include "src/diagnosis/stall.h"

#include <algorithm>
#include <utility>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/wait.h"
#include "src/base/words.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/stall_notes.h"
#include "src/trace/recorder.h"

namespace tutti::diagnosis {
namespace {

// A peer may have given up because a third rank died. Health learns of the death itself within this
// time, and the death says more than the peer's words.
constexpr uint64_t kRemoteReportNs = 300'000'000;
// A peer that cannot be reached, or ended without a word, may have left because of other ranks. The
// ranks that are connected with those tell it on, which takes longer.
constexpr uint64_t kUntoldNs = 2 * kRemoteReportNs;
// Notes cost a system call and a wake-up each, so they begin late.
constexpr uint64_t kTellNs = 200'000'000;
constexpr uint64_t kTellPerStreamNs = 1'000'000;
constexpr uint64_t kHearNs = 5'000'000;
// How long a rank that gives up waits for peers that read its last words late.
constexpr uint64_t kLastWordsNs = 100'000'000;
// A rank whose wait was noted longer ago than this waits no more.
constexpr uint64_t kAwakeNs = 250'000'000;

// A note that waits for a connection would be out of date when it arrives.
bool is_connected(const Contact& peer) {
  return peer.stream != nullptr && peer.link->state() == transport::Link::State::kConnected;
}

/// "all_reduce (call 7)", "send/recv".
std::string name_of(const LongWait& wait) {
  const std::string what = wait.what;
  return is_collective(wait) ? what + " (" + call_text(wait.number) + ")" : what;
}

std::optional<DescribedCall> call_in(const transport::Note& note) {
  return read_call({note.large[0], note.large[1]});
}

std::string mismatch_text(const LongWait& wait, uint32_t number, const std::string& both) {
  const bool is_earlier = number != wait.number;
  return call_text(number) + " differs between ranks: " + both +
         (is_earlier ? "; the first of them is in " + name_of(wait) + " now" : std::string()) +
         "; every rank must make the same calls in the same order";
}

}  // namespace

Stall::Stall(const StallOptions& options, std::vector<Contact> contacts, Health& health)
    : options_(options),
      contacts_(std::move(contacts)),
      health_(health),
      mine_(contacts_[static_cast<size_t>(options.rank)].words) {
  for (const Contact& peer : contacts_) has_streams_ = has_streams_ || peer.stream != nullptr;
  if (!has_streams_) return;
  far_signatures_.resize(kRecentCalls);
  heard_.resize(contacts_.size());
  answered_.resize(contacts_.size());
  announced_.resize(contacts_.size());
}

transport::ChannelId Stall::channel(uint32_t lane) const {
  return {options_.communicator, options_.epoch, lane};
}

Status Stall::check(const LongWait& wait) {
  const uint64_t now_ns = monotonic_ns();
  begin(wait, now_ns);
  say(wait, now_ns);
  if (Status lost = health_.check(); !lost.ok()) {
    // The peer may have left because calls differ, and that says more than its end.
    Status status = compare_with_host(wait);
    if (status.ok()) status = hear(wait, now_ns);
    if (!status.ok()) return status;
    cause_ = health_.cause();
    return lost;
  }
  if (Status status = diagnose(wait); !status.ok()) return status;
  if (Status status = hear(wait, now_ns); !status.ok()) return status;
  // The culprit must be known when the verdict is due, so the questions begin before.
  const uint64_t deadline_ns = wait.deadline_ns;
  const uint64_t report_ns =
      options_.slow_ns < kNoDeadline - reported_ns_ ? reported_ns_ + options_.slow_ns : kNoDeadline;
  const uint64_t due_ns = std::min(deadline_ns, report_ns);
  if (due_ns == kNoDeadline) return {};
  const uint64_t from_ns = due_ns == report_ns ? reported_ns_ : since_ns_;
  const uint64_t time_ns = due_ns > from_ns ? due_ns - from_ns : 0;
  if (now_ns + std::min(kMostSilenceNs, time_ns / 2) < due_ns) return {};
  const BlameChain chain = query(wait, now_ns);
  const uint64_t patience_ns = chain.open ? kMostSilenceNs : 0;
  if (now_ns <= due_ns || now_ns - due_ns < patience_ns) return {};
  Status status = conclude(wait, chain.culprit, now_ns);
  query_ns_ = 0;
  return status;
}

Status Stall::conclude(const LongWait& wait, uint32_t culprit, uint64_t now_ns) {
  const std::string text = name_of(wait) + " on " + health_.name_of(options_.rank);
  const std::string why = describe(wait, culprit, now_ns);
  if (now_ns > wait.deadline_ns) {
    cause_ = {static_cast<int>(culprit), -1};
    return Status::timeout(text + " passed its deadline: " + why);
  }
  reported_ns_ = now_ns;
  health_.report(text + " takes longer than " + seconds(now_ns - since_ns_) + ": " + why);
  return {};
}

void Stall::begin(const LongWait& wait, uint64_t now_ns) {
  const uint64_t episode = pack(wait.transfers, wait.number);
  if (episode_ == episode) return;
  episode_ = episode;
  since_ns_ = reported_ns_ = told_ns_ = now_ns;
  gave_up_at_ns_ = query_ns_ = 0;
  cause_ = {};
}

void Stall::say(const LongWait& wait, uint64_t now_ns) {
  mine_.waiting->store(pack(wait.number, wait.peer), std::memory_order_relaxed);
  mine_.awake_ns->store(now_ns, std::memory_order_release);
  if (options_.recorder != nullptr) options_.recorder->waits_for(wait.peer, wait.lane, wait.step);
  const uint64_t pause_ns = kTellNs + contacts_.size() * kTellPerStreamNs;
  if (!has_streams_ || now_ns - told_ns_ < pause_ns) return;
  told_ns_ = now_ns;
  transport::Note note;
  note.small[0] = wait.number;
  note.small[1] = far_signatures_[wait.number % kRecentCalls];
  note.large[0] = pack(static_cast<uint32_t>(NoteKind::kWaits), wait.peer);
  const bool is_new = is_collective(wait) && std::exchange(told_call_, wait.number) != wait.number;
  const auto call = is_new ? note_of_call(wait.number) : std::nullopt;
  for (const Contact& peer : contacts_) {
    if (!is_connected(peer)) continue;
    if (call) peer.stream->tell_with_next(channel(kCallLane), *call);
    peer.stream->tell(channel(kControlLane), note);
  }
}

Status Stall::hear(const LongWait& wait, uint64_t now_ns) {
  // While this rank asks, each answer names the rank to ask next, so it reads at once.
  if (!has_streams_ || (query_ns_ == 0 && now_ns - heard_ns_ < kHearNs)) return {};
  heard_ns_ = now_ns;
  for (uint32_t peer = 0; peer < contacts_.size(); ++peer) {
    if (contacts_[peer].stream == nullptr) continue;
    transport::Note note;
    contacts_[peer].stream->progress();  // a call that waits for a rank of this host does not
    if (Status status = judge_link(wait, peer); !status.ok()) return status;
    const uint64_t serial = contacts_[peer].stream->heard(channel(kControlLane), note);
    Heard& heard = heard_[peer];
    if (serial == heard.serial) continue;
    heard.serial = serial;
    heard.note = note;
    heard.at_ns = now_ns;
    if (Status status = judge_note(wait, peer, note); !status.ok()) return status;
  }
  return {};
}

// A link may have found a mistake that has nothing to do with the peer that this call waits for.
Status Stall::judge_link(const LongWait& wait, uint32_t peer) {
  const Contact& other = contacts_[peer];
  if (other.stream != nullptr) {
    Status differs = other.stream->epoch_status(epoch());  // a message and its receive do not match
    if (!differs.ok()) {
      cause_ = {static_cast<int>(peer), options_.rank};
      return mismatch_at(wait, peer, std::move(differs));
    }
  }
  Status status = other.link->status();
  // This rank's own fault: a buffer that is no memory, or no memory left. A connection that could
  // not be made concerns only the call that needs it.
  const bool mine = status.code() == Code::kSystemError && other.link->liveness_fd() >= 0;
  if (mine || status.code() == Code::kInvalidArgument) {
    cause_ = {options_.rank, -1};
    return status;
  }
  return {};
}

// The two calls are compared by the rank that has come as far as the other one, or further: the one
// that is behind has not made the call yet.
Status Stall::judge_note(const LongWait& wait, uint32_t peer, const transport::Note& note) {
  if (kind_of(note) != NoteKind::kWaits && kind_of(note) != NoteKind::kGaveUp)
    return {};  // it carries no signature
  const uint32_t number = note.small[0];
  const auto behind = static_cast<int32_t>(wait.number - number);
  if (behind < 0 || behind >= static_cast<int32_t>(kRecentCalls)) return {};
  if (far_signatures_[number % kRecentCalls] == note.small[1]) return {};
  cause_ = {static_cast<int>(peer), options_.rank};
  transport::Note told;
  const bool known = contacts_[peer].stream->heard(channel(kCallLane), told) > 0;
  const auto theirs = known && told.small[0] == number ? call_in(told) : std::nullopt;
  const auto both = compare(peer, CallLog::find(mine_.log, number), theirs);
  if (both) return Status::invalid_usage(mismatch_text(wait, number, *both));
  return Status::invalid_usage(
      call_text(number) +
      " or one before it differs between ranks: " + health_.name_of(options_.rank) + " is in " +
      name_of(wait) + ", " + health_.name_of(static_cast<int>(peer)) +
      " called something else (collective, count, type, operation, root or options); every rank "
      "must make the same calls in the same order");
}

// Finds why a peer does not answer: its link is broken, it gave up, or it is in another call.
// Health already tells of dead peers on this host, so their links, which cost system calls, are not
// asked.
Status Stall::diagnose(const LongWait& wait) {
  const Contact& other = contacts_[wait.peer];
  Cause cause;
  if (other.words.valid()) {
    const uint64_t failed = other.words.failed->load(std::memory_order_acquire);
    if (failed == 0) return compare_calls(wait, wait.peer);
    const auto loss = Loss::read(failed, contacts_.size());
    cause = loss ? loss->cause : Cause{static_cast<int>(wait.peer), -1};
  } else if (other.link != nullptr) {
    if (Status status = judge_link(wait, wait.peer); !status.ok()) return status;
    Status status = other.link->status();
    cause = cause_told_by(wait.peer);
    if (!cause.known()) {
      cause_ = {};
      return remote_report(std::move(status), kUntoldNs);
    }
  } else {
    return {};
  }
  if (Status status = compare_with_host(wait); !status.ok()) return status;
  cause_ = cause;
  const std::string why = health_.name_of(static_cast<int>(wait.peer)) + " gave up " +
                          health_.because_of(cause) + "; rank " + std::to_string(options_.rank) +
                          " cannot go on with " + wait.what;
  return remote_report(Status::remote_error(why), kRemoteReportNs);
}

// When the calls of two ranks differ, each blames the other, and a third rank that gives up because
// of one of them repeats its words. So a rank that hears of a failure compares the calls of its
// host itself before it believes the words.
Status Stall::compare_with_host(const LongWait& wait) {
  for (uint32_t peer = 0; peer < contacts_.size(); ++peer) {
    if (!contacts_[peer].words.valid()) continue;
    if (Status status = compare_calls(wait, peer); !status.ok()) return status;
  }
  return {};
}

Status Stall::remote_report(Status status, uint64_t patience_ns) {
  if (status.code() != Code::kRemoteError) return status;
  const uint64_t now_ns = monotonic_ns();
  if (gave_up_at_ns_ == 0) gave_up_at_ns_ = now_ns;
  return now_ns - gave_up_at_ns_ < patience_ns ? Status() : status;
}

Status Stall::compare_calls(const LongWait& wait, uint32_t peer) {
  const RankWords& other = contacts_[peer].words;
  if (!is_collective(wait)) return {};
  uint64_t word = other.call->load(std::memory_order_acquire);
  if (word == 0) return {};  // the peer has only just joined
  const auto ahead = static_cast<int32_t>(high(word) - wait.number);
  uint64_t called = pack(wait.number, wait.signature);
  if (ahead > 0) word = other.recent_call(wait.number).load(std::memory_order_acquire);
  // The peer may have given up in that call and will come no further.
  if (ahead < 0) called = mine_.recent_call(high(word)).load(std::memory_order_relaxed);
  if (high(word) != high(called) || word == called) return {};
  // Signatures hold all calls so far, so the first call that differed may lie further back.
  uint32_t first = high(called);
  for (uint32_t back = 1; back < kRecentCalls; ++back) {
    const uint32_t number = high(called) - back;
    const uint64_t theirs = other.recent_call(number).load(std::memory_order_acquire);
    const uint64_t ours = mine_.recent_call(number).load(std::memory_order_relaxed);
    if (high(theirs) != number || high(ours) != number || theirs == ours) break;
    first = number;
  }
  cause_ = {static_cast<int>(peer), options_.rank};
  const auto both = compare(peer, CallLog::find(mine_.log, first), CallLog::find(other.log, first));
  if (both) return Status::invalid_usage(mismatch_text(wait, first, *both));
  return Status::invalid_usage(
      call_text(first) + " differs between ranks: " + health_.name_of(options_.rank) +
      (first == wait.number
           ? std::string(" is in ") + wait.what
           : " made one call (it is in " + call_text(wait.number) + ", " + wait.what + ", now)") +
      ", " + health_.name_of(static_cast<int>(peer)) +
      " called something else (collective, count, type, operation, root, placement or options); "
      "every rank must make the same calls in the same order");
}

// Nothing if one of the two calls is not known, or if the calls are the same.
std::optional<std::string> Stall::compare(uint32_t peer, const std::optional<DescribedCall>& its,
                                          const std::optional<DescribedCall>& others) const {
  if (!its || !others) return std::nullopt;
  return compare_text(health_.name_of(options_.rank), *its, health_.name_of(static_cast<int>(peer)),
                      *others);
}

// A rank that finds that calls differ needs this description to say in which field.
std::optional<transport::Note> Stall::note_of_call(uint32_t number) const {
  const auto call = CallLog::find(mine_.log, number);
  if (!call) return std::nullopt;
  transport::Note note;
  note.small[0] = number;
  note.large[0] = words_of(*call)[0];
  note.large[1] = words_of(*call)[1];
  return note;
}

void Stall::announce_new_call(uint32_t peer, uint32_t number, uint32_t runs) {
  announced_[peer] = runs;
  const auto note = note_of_call(number);
  if (note) contacts_[peer].stream->tell_with_next(channel(kCallLane), *note);
}

// The error for a message that its receiver's call does not expect. Both ends know both calls: the
// sender describes its call in a note before the message, and the receiver describes its own before
// it reports the difference.
Status Stall::mismatch_at(const LongWait& wait, uint32_t peer, Status found) const {
  transport::Note note;
  if (!is_collective(wait) || contacts_[peer].stream->heard(channel(kCallLane), note) == 0 ||
      static_cast<int32_t>(wait.number - note.small[0]) < 0) {
    return found;
  }
  const auto both = compare(peer, CallLog::find(mine_.log, wait.number), call_in(note));
  if (!both) return found;
  return Status::invalid_usage("a message of " + name_of(wait) + " does not match: " + *both +
                               "; every rank must make the same calls in the same order");
}

std::string Stall::leave(uint32_t number, const Loss& loss) {
  tell_host(loss);
  if (!has_streams_) return {};
  tell_all(number, loss);
  for (const Contact& peer : contacts_) {
    if (peer.stream != nullptr) peer.stream->end_epoch(epoch());
  }
  const uint64_t until_ns = monotonic_ns() + kLastWordsNs;
  Backoff backoff(1);
  while (!have_all_let_go() && monotonic_ns() < until_ns) backoff.pause();
  return sever_the_rest();
}

// The note on the control lane is for ranks that wait for this one. The note on the last lane wakes
// the control threads of all connected ranks, which pass it on to the others as a notice.
void Stall::tell_all(uint32_t number, const Loss& loss) {
  transport::Note note;
  note.small[0] = number;
  note.small[1] = far_signatures_[number % kRecentCalls];
  note.large[0] = pack(static_cast<uint32_t>(NoteKind::kGaveUp), 0);
  note.large[1] = loss.word();
  const auto call = loss.cause.calls_differ() ? note_of_call(number) : std::nullopt;
  const MutexLock lock(leave_mutex_);
  left_ = true;
  for (const Contact& peer : contacts_) {
    // If there is no memory for a note, the peer finds out by its deadline.
    if (peer.stream == nullptr) continue;
    attempt([&] {
      if (call) peer.stream->tell_with_next(channel(kCallLane), *call);
      peer.stream->tell_with_next(channel(kControlLane), note);
      peer.stream->tell(channel(kLastLane), loss_notice(loss));
    });
  }
}

// A rank of this host that waits for this rank sees the failure in this rank's arena. The word that
// is stored here is for those that wait for other ranks; they also tell the hosts that only they
// are connected with.
void Stall::tell_host(const Loss& loss) const {
  for (size_t rank = 0; rank < contacts_.size(); ++rank) {
    const RankWords& words = contacts_[rank].words;
    if (static_cast<int>(rank) == options_.rank || !words.valid()) continue;
    loss.tell(*words.lost, contacts_.size());
  }
}

bool Stall::has_let_go(const Contact& peer) const {
  return peer.stream == nullptr || peer.stream->has_let_go(epoch());
}

// False as well while notes are still in this rank's output, and while a connection is being made:
// the peer would find no listener if this process ended first.
bool Stall::have_all_let_go() const {
  bool done = true;
  for (const Contact& peer : contacts_) {
    if (peer.stream == nullptr) continue;
    peer.stream->progress();
    const transport::OneSided* const access = peer.link->one_sided();
    const bool is_told = access == nullptr || !access->has_output();
    const bool is_being_met = peer.link->state() == transport::Link::State::kWanted;
    done = has_let_go(peer) && is_told && !is_being_met && done;
  }
  return done;
}

std::string Stall::sever_the_rest() const {
  std::vector<int> ranks;
  for (size_t rank = 0; rank < contacts_.size(); ++rank) {
    if (has_let_go(contacts_[rank])) continue;
    contacts_[rank].link->sever(
        "a call has failed, and the peer did not say in time that it writes to its memory no more");
    ranks.push_back(static_cast<int>(rank));
  }
  if (ranks.empty()) return {};
  return std::string("; the connection") + (ranks.size() == 1 ? " to rank " : "s to ranks ") +
         list_ranks(ranks) +
         " ended, too, for all communicators: a peer that does not answer could still write to "
         "the memory of this call";
}

// This thread reads only the words of the arena, which the thread of the call may write meanwhile.
void Stall::answer() {
  if (!has_streams_) return;
  const uint64_t awake_ns = mine_.awake_ns->load(std::memory_order_acquire);
  if (awake_ns + kMostSilenceNs > monotonic_ns()) return;
  transport::Note mine;
  mine.small[0] = high(mine_.call->load(std::memory_order_acquire));
  mine.large[0] = pack(static_cast<uint32_t>(NoteKind::kElsewhere), 0);
  for (uint32_t peer = 0; peer < contacts_.size(); ++peer) {
    transport::Stream* stream = contacts_[peer].stream;
    if (stream == nullptr) continue;
    stream->progress();
    transport::Note theirs;
    const uint64_t serial = stream->heard(channel(kControlLane), theirs);
    if (serial == answered_[peer]) continue;
    answered_[peer] = serial;
    if (kind_of(theirs) == NoteKind::kWaits) tell_unless_left(peer, mine);
  }
}

void Stall::answer(uint32_t peer) {
  const uint64_t awake_ns = mine_.awake_ns->load(std::memory_order_acquire);
  const uint64_t waiting = mine_.waiting->load(std::memory_order_relaxed);
  const uint32_t number = high(mine_.call->load(std::memory_order_acquire));
  const bool waits = awake_ns + kAwakeNs > monotonic_ns() && high(waiting) == number;
  transport::Note note;
  note.small[0] = number;
  note.large[0] = waits ? pack(static_cast<uint32_t>(NoteKind::kAnswers), low(waiting))
                        : pack(static_cast<uint32_t>(NoteKind::kElsewhere), 0);
  tell_unless_left(peer, note);
}

void Stall::tell_unless_left(uint32_t peer, const transport::Note& note) {
  const MutexLock lock(leave_mutex_);
  if (!left_) contacts_[peer].stream->tell(channel(kControlLane), note);
}

Cause Stall::cause_told_by(uint32_t peer) const {
  transport::Note note;
  if (contacts_[peer].stream != nullptr) contacts_[peer].stream->heard(channel(kControlLane), note);
  return cause_in(note, contacts_.size());
}

}  // namespace tutti::diagnosis
