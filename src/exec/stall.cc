#include "src/exec/stall.h"

#include <algorithm>

#include "src/base/caught.h"
#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/exec/loss.h"
#include "src/exec/wait.h"
#include "src/trace/recorder.h"

namespace tutti::exec {
namespace {

// A peer that gave up may have done so because of one that died, which Health knows in a moment.
constexpr uint64_t kHearsayNs = 300'000'000;
// One that cannot be reached, or went without a word, may have left because of others: whoever is
// connected with them tells it on, and Health takes its time for that.
constexpr uint64_t kUntoldNs = 2 * kHearsayNs;
// Notes cost a system call and a wake-up each, so they begin late.
constexpr uint64_t kTellNs = 200'000'000;
constexpr uint64_t kTellPerStreamNs = 1'000'000;
constexpr uint64_t kHearNs = 5'000'000;
// For peers that read, but not at once.
constexpr uint64_t kLastWordsNs = 100'000'000;
// Who has not been seen waiting for so long does something else.
constexpr uint64_t kMostSilenceNs = kNanosecondsPerSecond;

// A rank that is asked and waits was awake so lately.
constexpr uint64_t kAwakeNs = 250'000'000;

// Note::large[0] on the control lane is kind << 32 | rank; large[1] of kGaveUp is a Loss's word.
// kWaits is said by the call, which knows its signature; kAnswers and kElsewhere by the control
// thread.
enum class Kind : uint32_t { kWaits = 1, kGaveUp = 2, kElsewhere = 3, kAnswers = 4 };

constexpr uint64_t pack(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }
constexpr uint32_t high(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr uint32_t low(uint64_t word) { return static_cast<uint32_t>(word); }

Kind kind_of(const transport::Note& note) { return static_cast<Kind>(high(note.large[0])); }

/// Not known if it says nothing of the kind.
Cause cause_in(const transport::Note& note, size_t ranks) {
  const auto loss =
      kind_of(note) == Kind::kGaveUp ? Loss::read(note.large[1], ranks) : std::nullopt;
  return loss ? loss->cause : Cause();
}

// A note that waited for a connection would say what was.
bool is_connected(const Peer& peer) {
  return peer.stream != nullptr && peer.link->state() == transport::Link::State::kConnected;
}

std::string seconds(uint64_t duration_ns) {
  constexpr uint64_t kTenth = kNanosecondsPerSecond / 10;
  const uint64_t tenths = duration_ns / kTenth;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string call_text(uint32_t number) { return "call " + std::to_string(number); }

// Only calls of the whole group have numbers that all ranks know; the last one's is not that of a
// send.
bool is_collective(const LongWait& wait) { return wait.call->signature != 0; }

/// "all_reduce (call 7)", "send/recv".
std::string name_of(const LongWait& wait) {
  const std::string what = wait.call->what;
  return is_collective(wait) ? what + " (" + call_text(wait.number) + ")" : what;
}

}  // namespace

Stall::Stall(const ExecutorOptions& options, const std::vector<Peer>& peers, Health& health)
    : options_(options),
      peers_(peers),
      health_(health),
      mine_(peers[static_cast<size_t>(options.rank)].arena) {
  for (const Peer& peer : peers) has_streams_ = has_streams_ || peer.stream != nullptr;
  if (!has_streams_) return;
  far_signatures_.resize(kRecentCalls);
  heard_.resize(peers.size());
  answered_.resize(peers.size());
}

transport::ChannelId Stall::channel(uint32_t lane) const {
  return {options_.communicator, options_.epoch, lane};
}

Status Stall::check(const LongWait& wait) {
  const uint64_t now_ns = monotonic_ns();
  begin(wait, now_ns);
  say(wait, now_ns);
  if (Status lost = health_.check(); !lost.ok()) {
    // Who is gone may have left because of calls that differ: that says more.
    Status status = compare_with_host(wait);
    if (status.ok()) status = hear(wait, now_ns);
    if (!status.ok()) return status;
    cause_ = health_.cause();
    return lost;
  }
  if (Status status = diagnose(wait); !status.ok()) return status;
  if (Status status = hear(wait, now_ns); !status.ok()) return status;
  // Who is to blame must be known when it is to be said, so those who may know are asked before.
  const uint64_t deadline_ns = wait.call->deadline_ns;
  const uint64_t report_ns =
      options_.slow_ns < kNoDeadline - reported_ns_ ? reported_ns_ + options_.slow_ns : kNoDeadline;
  const uint64_t due_ns = std::min(deadline_ns, report_ns);
  if (due_ns == kNoDeadline) return {};
  const uint64_t from_ns = due_ns == report_ns ? reported_ns_ : since_ns_;
  const uint64_t time_ns = due_ns > from_ns ? due_ns - from_ns : 0;
  if (now_ns + std::min(kMostSilenceNs, time_ns / 2) < due_ns) return {};
  const Trail trail = inquire(wait, now_ns);
  const uint64_t patience_ns = trail.open ? kMostSilenceNs : 0;
  if (now_ns <= due_ns || now_ns - due_ns < patience_ns) return {};
  Status status = conclude(wait, trail.culprit, now_ns);
  inquiry_ns_ = 0;
  return status;
}

Status Stall::conclude(const LongWait& wait, uint32_t culprit, uint64_t now_ns) {
  const std::string text = name_of(wait) + " on " + health_.name_of(options_.rank);
  const std::string why = describe(wait, culprit, now_ns);
  if (now_ns > wait.call->deadline_ns) {
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
  gave_up_at_ns_ = inquiry_ns_ = 0;
  cause_ = {};
}

void Stall::say(const LongWait& wait, uint64_t now_ns) {
  Counter& counter = mine_.counter(0);
  counter.waiting.store(pack(wait.number, wait.peer), std::memory_order_relaxed);
  counter.awake_ns.store(now_ns, std::memory_order_release);
  if (options_.recorder != nullptr) options_.recorder->waits_for(wait.peer, wait.lane, wait.step);
  const uint64_t pause_ns = kTellNs + peers_.size() * kTellPerStreamNs;
  if (!has_streams_ || now_ns - told_ns_ < pause_ns) return;
  told_ns_ = now_ns;
  transport::Note note;
  note.small[0] = wait.number;
  note.small[1] = far_signatures_[wait.number % kRecentCalls];
  note.large[0] = pack(static_cast<uint32_t>(Kind::kWaits), wait.peer);
  for (const Peer& peer : peers_) {
    if (is_connected(peer)) peer.stream->tell(channel(kControlLane), note);
  }
}

Status Stall::hear(const LongWait& wait, uint64_t now_ns) {
  // An answer says whom to ask next.
  if (!has_streams_ || (inquiry_ns_ == 0 && now_ns - heard_ns_ < kHearNs)) return {};
  heard_ns_ = now_ns;
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (peers_[peer].stream == nullptr) continue;
    transport::Note note;
    peers_[peer].stream->progress();  // nobody else may do it: this rank may wait for a near one
    const uint64_t serial = peers_[peer].stream->heard(channel(kControlLane), note);
    Heard& heard = heard_[peer];
    if (serial == heard.serial) continue;
    heard.serial = serial;
    heard.note = note;
    heard.at_ns = now_ns;
    if (Status status = judge_note(wait, peer, note); !status.ok()) return status;
  }
  return {};
}

// The peer's call is compared by whoever is as far or further: who is behind cannot know.
Status Stall::judge_note(const LongWait& wait, uint32_t peer, const transport::Note& note) {
  if (kind_of(note) != Kind::kWaits && kind_of(note) != Kind::kGaveUp) return {};  // unsigned
  const uint32_t number = note.small[0];
  const auto behind = static_cast<int32_t>(wait.number - number);
  if (behind < 0 || behind >= static_cast<int32_t>(kRecentCalls)) return {};
  if (far_signatures_[number % kRecentCalls] == note.small[1]) return {};
  cause_ = {static_cast<int>(peer), options_.rank};
  return Status::invalid_usage(
      call_text(number) +
      " or one before it differs between ranks: " + health_.name_of(options_.rank) + " is in " +
      name_of(wait) + ", " + health_.name_of(static_cast<int>(peer)) +
      " called something else (collective, count, type, operation, root or options); every rank "
      "must make the same calls in the same order");
}

// Why a peer does not answer: its link is broken, it gave up, or it is in another call. Ranks of
// one host are told of dead peers by Health; asking their links costs system calls.
Status Stall::diagnose(const LongWait& wait) {
  const Peer& other = peers_[wait.peer];
  Cause cause;
  if (other.arena.valid()) {
    const uint64_t failed = other.arena.counter(0).failed.load(std::memory_order_acquire);
    if (failed == 0) return compare_calls(wait, wait.peer);
    const auto loss = Loss::read(failed, peers_.size());
    cause = loss ? loss->cause : Cause{static_cast<int>(wait.peer), -1};
  } else if (other.link != nullptr) {
    Status status = other.link->status();
    if (status.code() == Code::kInvalidUsage) {  // a message and its receive do not match
      cause_ = {static_cast<int>(wait.peer), options_.rank};
      return status;
    }
    if (status.code() == Code::kInvalidArgument) {  // buffers of this rank
      cause_ = {options_.rank, -1};
      return status;
    }
    cause = cause_told_by(wait.peer);
    if (!cause.known()) {
      cause_ = {};
      return hearsay(std::move(status), kUntoldNs);
    }
  } else {
    return {};
  }
  if (Status status = compare_with_host(wait); !status.ok()) return status;
  cause_ = cause;
  const std::string why = health_.name_of(static_cast<int>(wait.peer)) + " gave up " +
                          health_.because_of(cause) + "; rank " + std::to_string(options_.rank) +
                          " cannot go on with " + wait.call->what;
  return hearsay(Status::remote_error(why), kHearsayNs);
}

// Of two whose calls differ each blames the other, and who gave up because of one of them blames
// whom that one did. So a rank that hears of it looks itself.
Status Stall::compare_with_host(const LongWait& wait) {
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    if (!peers_[peer].arena.valid()) continue;
    if (Status status = compare_calls(wait, peer); !status.ok()) return status;
  }
  return {};
}

Status Stall::hearsay(Status status, uint64_t patience_ns) {
  if (status.code() != Code::kRemoteError) return status;
  const uint64_t now_ns = monotonic_ns();
  if (gave_up_at_ns_ == 0) gave_up_at_ns_ = now_ns;
  return now_ns - gave_up_at_ns_ < patience_ns ? Status() : status;
}

Status Stall::compare_calls(const LongWait& wait, uint32_t peer) {
  const ArenaView& other = peers_[peer].arena;
  if (!is_collective(wait)) return {};
  uint64_t word = other.counter(0).call.load(std::memory_order_acquire);
  if (word == 0) return {};  // it has only just joined
  const auto ahead = static_cast<int32_t>(high(word) - wait.number);
  uint64_t called = pack(wait.number, wait.call->signature);
  if (ahead > 0) word = other.recent(wait.number).load(std::memory_order_acquire);
  // It may have given up in that call, and come no further.
  if (ahead < 0) called = mine_.recent(high(word)).load(std::memory_order_relaxed);
  if (high(word) != high(called) || word == called) return {};
  // Signatures hold all calls so far: the first that differs may lie back.
  uint32_t first = high(called);
  for (uint32_t back = 1; back < kRecentCalls; ++back) {
    const uint32_t number = high(called) - back;
    const uint64_t theirs = other.recent(number).load(std::memory_order_acquire);
    const uint64_t ours = mine_.recent(number).load(std::memory_order_relaxed);
    if (high(theirs) != number || high(ours) != number || theirs == ours) break;
    first = number;
  }
  cause_ = {static_cast<int>(peer), options_.rank};
  return Status::invalid_usage(
      call_text(first) + " differs between ranks: " + health_.name_of(options_.rank) +
      (first == wait.number ? std::string(" is in ") + wait.call->what
                            : " made one call (it is in " + call_text(wait.number) + ", " +
                                  wait.call->what + ", now)") +
      ", " + health_.name_of(static_cast<int>(peer)) +
      " called something else (collective, count, type, operation, root, placement or options); "
      "every rank must make the same calls in the same order");
}

void Stall::leave(uint32_t number, const Loss& loss) {
  tell_host(loss);
  if (!has_streams_) return;
  transport::Note note;
  note.small[0] = number;
  note.small[1] = far_signatures_[number % kRecentCalls];
  note.large[0] = pack(static_cast<uint32_t>(Kind::kGaveUp), 0);
  note.large[1] = loss.word();
  {
    const std::lock_guard lock(leave_mutex_);
    left_ = true;
    for (const Peer& peer : peers_) {
      // What cannot be said for want of memory is not said; the streams end all the same.
      if (peer.stream != nullptr) attempt([&] { peer.stream->tell(channel(kControlLane), note); });
    }
  }
  const uint64_t until_ns = monotonic_ns() + kLastWordsNs;
  Backoff backoff(1);
  while (!hang_up_all() && monotonic_ns() < until_ns) backoff.pause();
}

// Those of this host see it in this rank's arena if they wait for it, and here if they wait for
// another one. They tell it to the hosts that they are connected with and this rank is not.
void Stall::tell_host(const Loss& loss) const {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const ArenaView& arena = peers_[rank].arena;
    if (static_cast<int>(rank) == options_.rank || !arena.valid()) continue;
    loss.tell(arena.counter(0).lost, peers_.size());
  }
}

// False while a peer has no room for what it is told. The control thread goes on with it.
bool Stall::hang_up_all() const {
  bool told = true;
  for (const Peer& peer : peers_) {
    if (peer.stream != nullptr) told = peer.link->hang_up() && told;
  }
  return told;
}

// A rank that waits says so itself. What it says here is read from its arena, not from its call.
void Stall::answer() {
  if (!has_streams_) return;
  const Counter& counter = mine_.counter(0);
  const uint64_t awake_ns = counter.awake_ns.load(std::memory_order_acquire);
  if (awake_ns + kMostSilenceNs > monotonic_ns()) return;
  transport::Note mine;
  mine.small[0] = high(counter.call.load(std::memory_order_acquire));
  mine.large[0] = pack(static_cast<uint32_t>(Kind::kElsewhere), 0);
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    transport::Stream* stream = peers_[peer].stream;
    if (stream == nullptr) continue;
    stream->progress();
    transport::Note theirs;
    const uint64_t serial = stream->heard(channel(kControlLane), theirs);
    if (serial == answered_[peer]) continue;
    answered_[peer] = serial;
    if (kind_of(theirs) == Kind::kWaits) tell_unless_left(peer, mine);
  }
}

void Stall::answer(uint32_t peer) {
  const Counter& counter = mine_.counter(0);
  const uint64_t awake_ns = counter.awake_ns.load(std::memory_order_acquire);
  const uint64_t waiting = counter.waiting.load(std::memory_order_relaxed);
  const uint32_t number = high(counter.call.load(std::memory_order_acquire));
  const bool waits = awake_ns + kAwakeNs > monotonic_ns() && high(waiting) == number;
  transport::Note note;
  note.small[0] = number;
  note.large[0] = waits ? pack(static_cast<uint32_t>(Kind::kAnswers), low(waiting))
                        : pack(static_cast<uint32_t>(Kind::kElsewhere), 0);
  tell_unless_left(peer, note);
}

void Stall::tell_unless_left(uint32_t peer, const transport::Note& note) {
  const std::lock_guard lock(leave_mutex_);
  if (!left_) peers_[peer].stream->tell(channel(kControlLane), note);
}

Cause Stall::cause_told_by(uint32_t peer) const {
  transport::Note note;
  if (peers_[peer].stream != nullptr) peers_[peer].stream->heard(channel(kControlLane), note);
  return cause_in(note, peers_.size());
}

// ---- who is it? ---------------------------------------------------------------------------------

Stall::Situation Stall::situation_of(uint32_t rank) const {
  Situation situation;
  const Peer& peer = peers_[rank];
  const auto ranks = static_cast<uint32_t>(peers_.size());
  if (peer.arena.valid()) {
    const Counter& counter = peer.arena.counter(0);
    situation.known = true;
    situation.seen_ns = counter.awake_ns.load(std::memory_order_acquire);
    situation.number = high(counter.call.load(std::memory_order_acquire));
    situation.peer = low(counter.waiting.load(std::memory_order_relaxed));
    const auto loss = Loss::read(counter.failed.load(std::memory_order_acquire), ranks);
    if (loss) situation.cause = loss->cause;
  } else if (rank < heard_.size() && heard_[rank].serial > 0) {
    const Heard& heard = heard_[rank];
    situation.known = true;
    situation.seen_ns = situation.told_ns = heard.at_ns;
    situation.number = heard.note.small[0];
    situation.peer = low(heard.note.large[0]);
    const Kind kind = kind_of(heard.note);
    if (kind == Kind::kElsewhere || kind == Kind::kGaveUp) situation.seen_ns = 0;
    situation.cause = cause_in(heard.note, ranks);
  }
  if (situation.peer >= ranks) situation.seen_ns = 0;
  return situation;
}

void Stall::describe_peer(trace::Exchange& exchange) const {
  const Situation situation = situation_of(exchange.peer);
  if (!situation.known) return;
  exchange.call = situation.number;
  exchange.blame = situation.peer;
  exchange.state =
      waits(situation, monotonic_ns()) ? trace::PeerState::kWaits : trace::PeerState::kElsewhere;
  if (!situation.cause.known()) return;
  exchange.state = trace::PeerState::kGaveUp;
  exchange.blame = static_cast<uint32_t>(situation.cause.rank);
}

/// A short deadline leaves less time to be seen waiting.
uint64_t Stall::silence_ns(uint64_t now_ns) const {
  return std::min(kMostSilenceNs, (now_ns - since_ns_) / 2);
}

// What a rank has said since this one asks stands until the answer is found.
bool Stall::waits(const Situation& situation, uint64_t now_ns) const {
  if (situation.seen_ns == 0) return false;
  const bool told = inquiry_ns_ != 0 && situation.told_ns >= inquiry_ns_;
  return told || situation.seen_ns + silence_ns(now_ns) >= now_ns;
}

// A rank of another host that is not seen waiting may not know that it should say so, since it is
// not connected with this one.
bool Stall::may_answer(uint32_t rank, uint64_t now_ns) const {
  if (peers_[rank].stream == nullptr || inquiry_ns_ == 0) return false;
  const Heard& heard = heard_[rank];
  if (heard.serial > 0 && heard.at_ns >= inquiry_ns_) return false;  // it did
  return heard.asked_ns < inquiry_ns_ || now_ns - heard.asked_ns < silence_ns(now_ns) / 2;
}

// Follows who waits for whom, from this rank on. In a circle nobody is to blame more than another,
// but a rank that was stopped while it waited may close one: it is the one not seen for longest.
Stall::Trail Stall::find_culprit(const LongWait& wait, uint64_t now_ns) const {
  const auto self = static_cast<uint32_t>(options_.rank);
  std::vector<bool> visited(peers_.size(), false);
  uint32_t at = wait.peer, oldest = wait.peer;
  uint64_t oldest_ns = ~uint64_t{0};
  while (at != self && !visited[at]) {
    visited[at] = true;
    const Situation situation = situation_of(at);
    if (situation.cause.known()) return {static_cast<uint32_t>(situation.cause.rank), false};
    if (!waits(situation, now_ns)) return {at, may_answer(at, now_ns)};
    if (situation.seen_ns < oldest_ns) {
      oldest_ns = situation.seen_ns;
      oldest = at;
    }
    at = situation.peer;
  }
  return {oldest, false};
}

// Asks the last of the chain, once.
Stall::Trail Stall::inquire(const LongWait& wait, uint64_t now_ns) {
  if (inquiry_ns_ == 0) inquiry_ns_ = now_ns;
  const Trail trail = find_culprit(wait, now_ns);
  if (!trail.open || heard_[trail.culprit].asked_ns >= inquiry_ns_) return trail;
  heard_[trail.culprit].asked_ns = now_ns;
  transport::Note question;
  question.small[0] = wait.number;
  peers_[trail.culprit].link->want();
  peers_[trail.culprit].stream->tell(channel(kAskLane), question);
  return trail;
}

std::string Stall::waiting_ranks(uint32_t culprit, uint64_t now_ns) const {
  std::vector<int> ranks;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (rank == culprit) continue;
    const bool self = rank == static_cast<uint32_t>(options_.rank);
    if (self || waits(situation_of(rank), now_ns)) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + list_ranks(ranks) +
         (ranks.size() == 1 ? " waits" : " wait");
}

std::string Stall::describe(const LongWait& wait, uint32_t culprit, uint64_t now_ns) const {
  const Situation situation = situation_of(culprit);
  const std::string name = health_.name_of(static_cast<int>(culprit));
  const std::string others = waiting_ranks(culprit, now_ns) + " for it";
  if (!situation.known) {
    return "nothing was heard of " + name + " for " + seconds(now_ns - since_ns_) +
           ": it has not entered the call, is stopped or cannot be reached; " + others;
  }
  if (situation.cause.known()) return name + " gave up; " + others;
  const auto behind = static_cast<int32_t>(wait.number - situation.number);
  if (is_collective(wait) && behind > 0) {
    return name + " never entered " + call_text(wait.number) + ": its last is " +
           call_text(situation.number) + "; " + others;
  }
  if (waits(situation, now_ns)) {
    return name + " waits for rank " + std::to_string(situation.peer) +
           (is_collective(wait) ? " in " + call_text(situation.number) : std::string()) +
           ": ranks wait in a circle; " + others;
  }
  if (!is_collective(wait)) {
    return name +
           " does not go on (stopped, busy, or it has not come so far; its last collective is " +
           call_text(situation.number) + "); " + others;
  }
  return name + " does not go on in " + call_text(situation.number) +
         " (stopped, busy, or it has left the call); " + others;
}

}  // namespace tutti::exec
