// Agreement on the members of the next epoch: single-decree Paxos as a pure state machine.
//
// Every member of the present epoch has one machine for it, which is proposer, acceptor and learner
// (Lamport, "Paxos Made Simple", 2001). Messages, deaths and ticks of a clock go in; messages, the
// tick at which the machine wants to be called again, and a decision come out. A machine answers
// only once its member has begun an edit: an edit ends the calls of the epoch, and a member in a
// call has not agreed to that. A message that comes before is dropped, and its sender repeats it.
//
// A try may fail at one member (a deadline) while its answers let others adopt a view. So a member
// keeps its machine until it adopts one, and begins again on it; an adopted view is final even if
// it is not what the later try wanted.
//
// Owns:    nothing outside; the same calls give the same messages.
// Threads: one object belongs to one thread.
// Units:   ticks, of any length; Terms::retry should exceed a round trip.
// Errors:  begin() checks the wish; failure() says why a try cannot succeed any more.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/base/prng.h"
#include "src/base/status.h"
#include "src/consensus/message.h"
#include "src/consensus/rules.h"
#include "src/consensus/wish.h"

namespace tutti::consensus {

class Agreement {
 public:
  static constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();

  /// `rules` outlives the machine.
  Agreement(Terms terms, const Rules& rules);

  /// Begins an edit, or begins one again.
  Status begin(const Wish& wish, uint64_t now);
  /// Ends the try without an outcome: at its deadline, say. The machine answers nobody until it
  /// begins again.
  void stop();

  void receive(const EditMessage& message, uint64_t now);
  /// The judge says that this member is dead, or, over several hosts, its last connection is lost.
  void mark_dead(MemberId member, uint64_t now);
  /// Called at or after wake_at().
  void tick(uint64_t now);

  /// The messages to send, each of which may be lost. Empties the machine's outbox.
  std::vector<Envelope> take_messages();
  uint64_t wake_at() const { return wake_at_; }

  /// The next epoch, once it is decided; it never changes.
  const std::optional<View>& adopted() const { return adopted_; }
  /// Why this try cannot succeed: the wishes differ, or one that must agree is dead.
  const Status& failure() const { return failure_; }
  /// Members that are not known dead and that nothing has been heard of in this try: for the error
  /// at its deadline.
  std::vector<MemberId> silent() const;
  const std::set<MemberId>& dead() const { return dead_; }

 private:
  enum class BallotPhase : uint8_t { kIdle, kPreparing, kAccepting };

  void on_prepare(const EditMessage& message, uint64_t now);
  void on_promise(const EditMessage& message, uint64_t now);
  void on_accept(const EditMessage& message, uint64_t now);
  void on_accepted(const EditMessage& message);
  void on_refused(const EditMessage& message, uint64_t now);
  void adopt(const View& view);

  void propose(uint64_t now);
  void send_accepts_if_promised(uint64_t now);
  bool waits_to_hear_of_death() const;
  void adopt_if_accepted();
  void give_way(uint64_t now);
  std::optional<View> next_view() const;
  /// Wish::order with newcomers in place of kAnyNewcomer; nothing while they are too few.
  std::optional<std::vector<MemberId>> order_with_newcomers() const;
  /// Notes why, once the members that are not dead cannot decide.
  void fail_if_hopeless();
  bool expects(MemberId member) const;

  EditMessage message_of(EditMessage::Subject kind, const Ballot& ballot) const;
  void send(MemberId to, EditMessage message);
  /// The question of this phase, to all that have not answered it; to all, where a newcomer is
  /// missing.
  void ask();

  const Terms terms_;
  const Digest view_;  // of terms_.previous
  const Rules& rules_;
  Prng random_;

  bool begun_ = false;
  Wish wish_;
  Status failure_;
  std::optional<View> adopted_;
  std::set<MemberId> dead_;
  std::set<MemberId> heard_;              // in this try
  std::map<MemberId, std::string> here_;  // newcomers and their cards

  // As acceptor.
  Ballot promised_;
  std::optional<ViewProposal> accepted_;

  // As proposer.
  BallotPhase phase_ = BallotPhase::kIdle;
  Ballot ballot_;
  uint64_t highest_counter_ = 0;
  uint32_t tries_ = 0;
  int asked_ = 0;  // times, with this ballot
  std::map<MemberId, std::optional<ViewProposal>> promises_;
  std::set<MemberId> accepts_;
  std::optional<View> proposed_;

  uint64_t wake_at_ = kNever;
  std::vector<Envelope> outbox_;
};

}  // namespace tutti::consensus
