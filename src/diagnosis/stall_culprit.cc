// The part of diagnosis::Stall that finds the culprit: the rank for which all others wait in the
// end.
#include <algorithm>
#include <vector>

#include "src/base/clock.h"
#include "src/base/words.h"
#include "src/diagnosis/loss.h"
#include "src/diagnosis/stall.h"
#include "src/diagnosis/stall_notes.h"

namespace tutti::diagnosis {

Stall::Situation Stall::situation_of(uint32_t rank) const {
  Situation situation;
  const Contact& peer = contacts_[rank];
  const auto ranks = static_cast<uint32_t>(contacts_.size());
  if (peer.words.valid()) {
    const RankWords& words = peer.words;
    situation.known = true;
    situation.seen_ns = words.awake_ns->load(std::memory_order_acquire);
    situation.number = high(words.call->load(std::memory_order_acquire));
    situation.peer = low(words.waiting->load(std::memory_order_relaxed));
    const auto loss = Loss::read(words.failed->load(std::memory_order_acquire), ranks);
    if (loss) situation.cause = loss->cause;
  } else if (rank < heard_.size() && heard_[rank].serial > 0) {
    const Heard& heard = heard_[rank];
    situation.known = true;
    situation.seen_ns = situation.told_ns = heard.at_ns;
    situation.number = heard.note.small[0];
    situation.peer = low(heard.note.large[0]);
    const NoteKind kind = kind_of(heard.note);
    if (kind == NoteKind::kElsewhere || kind == NoteKind::kGaveUp) situation.seen_ns = 0;
    situation.cause = cause_in(heard.note, ranks);
  }
  if (situation.peer >= ranks) situation.seen_ns = 0;
  return situation;
}

void Stall::describe_peer(trace::ExchangeState& exchange) const {
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

// The last thing that a peer said still holds: it cannot leave that call without this rank.
bool Stall::is_awaited() const {
  const uint32_t own = high(mine_.call->load(std::memory_order_acquire));
  for (const Contact& peer : contacts_) {
    uint32_t number = 0, whom = 0;
    transport::Note note;
    if (peer.words.valid()) {
      const uint64_t waiting = peer.words.waiting->load(std::memory_order_acquire);
      number = high(waiting);
      whom = low(waiting);
    } else if (peer.stream != nullptr && peer.stream->heard(channel(kControlLane), note) > 0) {
      const bool waits = kind_of(note) == NoteKind::kWaits || kind_of(note) == NoteKind::kAnswers;
      number = waits ? note.small[0] : own;
      whom = low(note.large[0]);
    } else {
      continue;
    }
    const bool is_new = static_cast<int32_t>(number - own) > 0;
    if (is_new && whom == static_cast<uint32_t>(options_.rank)) return true;
  }
  return false;
}

/// After how much silence a rank counts as not waiting; less where the deadline is short.
uint64_t Stall::silence_ns(uint64_t now_ns) const {
  return std::min(kMostSilenceNs, (now_ns - since_ns_) / 2);
}

// The word of a rank that has spoken since the questions began counts until they end.
bool Stall::waits(const Situation& situation, uint64_t now_ns) const {
  if (situation.seen_ns == 0) return false;
  const bool told = query_ns_ != 0 && situation.told_ns >= query_ns_;
  return told || situation.seen_ns + silence_ns(now_ns) >= now_ns;
}

// A rank of another host may wait unseen, because it is not connected with this rank and sends it
// no notes. It is not to blame before it has had time to answer a question.
bool Stall::may_answer(uint32_t rank, uint64_t now_ns) const {
  if (contacts_[rank].stream == nullptr || query_ns_ == 0) return false;
  const Heard& heard = heard_[rank];
  if (heard.serial > 0 && heard.at_ns >= query_ns_) return false;  // it has answered
  return heard.asked_ns < query_ns_ || now_ns - heard.asked_ns < silence_ns(now_ns) / 2;
}

// Follows the chain of waiting ranks, beginning with this one. If the chain closes to a circle, the
// culprit is the rank of it that was not seen for longest: it may have been stopped while it
// waited.
Stall::BlameChain Stall::find_culprit(const LongWait& wait, uint64_t now_ns) const {
  const auto self = static_cast<uint32_t>(options_.rank);
  std::vector<bool> visited(contacts_.size(), false);
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

// Asks the rank at the end of the chain, once.
Stall::BlameChain Stall::query(const LongWait& wait, uint64_t now_ns) {
  if (query_ns_ == 0) query_ns_ = now_ns;
  const BlameChain chain = find_culprit(wait, now_ns);
  if (!chain.open || heard_[chain.culprit].asked_ns >= query_ns_) return chain;
  heard_[chain.culprit].asked_ns = now_ns;
  transport::Note question;
  question.small[0] = wait.number;
  contacts_[chain.culprit].link->probe();  // if the rank has left in good order, that is no loss
  contacts_[chain.culprit].stream->tell(channel(kAskLane), question);
  return chain;
}

/// "; ranks 0-4 wait for it". Empty if no rank waits for it any more.
std::string Stall::waiting_ranks(uint32_t culprit, uint64_t now_ns) const {
  std::vector<int> ranks;
  for (uint32_t rank = 0; rank < contacts_.size(); ++rank) {
    if (rank == culprit) continue;
    const bool self = rank == static_cast<uint32_t>(options_.rank);
    if (self || waits(situation_of(rank), now_ns)) {
      ranks.push_back(static_cast<int>(rank));
    }
  }
  if (ranks.empty()) return "";
  const bool one = ranks.size() == 1;
  return (one ? "; rank " : "; ranks ") + list_ranks(ranks) + (one ? " waits" : " wait") +
         " for it";
}

// A rank that was stopped and goes on finds that the others blame it: then what it does at that
// moment says nothing.
std::string Stall::describe(const LongWait& wait, uint32_t culprit, uint64_t now_ns) const {
  const Situation situation = situation_of(culprit);
  const std::string name = health_.name_of(static_cast<int>(culprit));
  if (culprit == static_cast<uint32_t>(options_.rank)) {
    return "the others have given up " + name +
           ", which is this rank: it did not go on for too long (stopped, or without a processor), "
           "or could not be reached";
  }
  const std::string others = waiting_ranks(culprit, now_ns);
  if (!situation.known) {
    return "nothing was heard of " + name + " for " + seconds(now_ns - since_ns_) +
           ": it has not entered the call, is stopped or cannot be reached" + others;
  }
  if (situation.cause.known()) return name + " gave up" + others;
  const auto behind = static_cast<int32_t>(wait.number - situation.number);
  if (is_collective(wait) && behind > 0) {
    return name + " never entered " + call_text(wait.number) + ": its last is " +
           call_text(situation.number) + others;
  }
  if (waits(situation, now_ns)) {
    return name + " waits for rank " + std::to_string(situation.peer) +
           (is_collective(wait) ? " in " + call_text(situation.number) : std::string()) +
           ": ranks wait in a circle" + others;
  }
  if (!is_collective(wait)) {
    return name +
           " does not go on (stopped, busy, or it has not come so far; its last collective is " +
           call_text(situation.number) + ")" + others;
  }
  return name + " does not go on in " + call_text(situation.number) +
         " (stopped, busy, or it has left the call)" + others;
}

}  // namespace tutti::diagnosis
