#include "src/consensus/agreement.h"

#include <algorithm>
#include <utility>

namespace tutti::consensus {
namespace {

// How often a proposer asks all before it goes on without an answer from some that it does not know
// to be dead: a member that died shortly before is known dead only once somebody has called it.
constexpr int kPatientAsks = 4;

std::set<MemberId> keys_of(const std::map<MemberId, std::optional<ViewProposal>>& promises) {
  std::set<MemberId> keys;
  for (const auto& [member, accepted] : promises) keys.insert(member);
  return keys;
}

}  // namespace

Agreement::Agreement(Terms terms, const Rules& rules)
    : terms_(std::move(terms)),
      view_(terms_.previous.digest()),
      rules_(rules),
      random_(terms_.seed) {}

Status Agreement::begin(const Wish& wish, uint64_t now) {
  if (!terms_.previous.holds(terms_.self)) {
    return Status::internal_error("a member agrees on the successor of a view that lacks it");
  }
  if (Status status = check(wish, terms_.previous); !status.ok()) return status;
  const std::vector<MemberId>& leave = wish.leave;
  if (std::find(leave.begin(), leave.end(), terms_.self) != leave.end()) {
    return Status::invalid_argument(
        "an edit removes the rank that calls it; only ranks that stay call");
  }
  if (adopted_) return {};
  begun_ = true;
  wish_ = wish;
  failure_ = {};
  phase_ = BallotPhase::kIdle;
  tries_ = 0;
  heard_ = {terms_.self};
  // One member goes first, so that rivals are rare. The others only wait longer, since that one may
  // be dead or stopped.
  const std::vector<MemberId> stay = staying(wish, terms_.previous);
  const auto first = std::min_element(stay.begin(), stay.end());
  wake_at_ = *first == terms_.self ? now : now + rules_.rival_delay(terms_, tries_, random_);
  fail_if_hopeless();
  return {};
}

void Agreement::stop() {
  begun_ = false;
  phase_ = BallotPhase::kIdle;
  wake_at_ = kNever;
}

void Agreement::receive(const EditMessage& message, uint64_t now) {
  if (message.from == terms_.self || !rules_.is_current(terms_, view_, message)) return;
  if (adopted_) {
    if (message.kind == EditMessage::Subject::kAdopted) return;
    EditMessage decision = message_of(EditMessage::Subject::kAdopted, {});
    decision.proposal = ViewProposal{{}, *adopted_};
    send(message.from, std::move(decision));
    return;
  }
  heard_.insert(message.from);
  switch (message.kind) {
    case EditMessage::Subject::kHere:
      here_[message.from] = message.text;
      send_accepts_if_promised(now);
      return;
    case EditMessage::Subject::kAdopted:
      if (message.proposal->view.previous == view_) adopt(message.proposal->view);
      return;
    case EditMessage::Subject::kPrepare:
      on_prepare(message, now);
      return;
    case EditMessage::Subject::kPromise:
      on_promise(message, now);
      return;
    case EditMessage::Subject::kAccept:
      on_accept(message, now);
      return;
    case EditMessage::Subject::kAccepted:
      on_accepted(message);
      return;
    case EditMessage::Subject::kRefused:
      on_refused(message, now);
      return;
    case EditMessage::Subject::kDiffers:
      if (!begun_ || phase_ == BallotPhase::kIdle || message.ballot != ballot_) return;
      failure_ = Status::invalid_usage("the members want different edits: one wants to " +
                                       wish_.describe() + ", another one to " + message.text);
      stop();
      return;
  }
}

void Agreement::mark_dead(MemberId member, uint64_t now) {
  if (adopted_ || member == terms_.self) return;
  here_.erase(member);
  if (!terms_.previous.holds(member)) return;
  dead_.insert(member);
  if (!begun_) return;
  fail_if_hopeless();
  send_accepts_if_promised(now);
  adopt_if_accepted();
}

void Agreement::tick(uint64_t now) {
  if (!begun_ || adopted_ || now < wake_at_) return;
  if (phase_ == BallotPhase::kIdle) {
    propose(now);
    return;
  }
  ask();
  wake_at_ = now + terms_.retry;
  send_accepts_if_promised(now);
}

std::vector<Envelope> Agreement::take_messages() { return std::exchange(outbox_, {}); }

std::vector<MemberId> Agreement::silent() const {
  std::vector<MemberId> silent;
  for (const MemberId member : terms_.previous.members) {
    if (expects(member) && heard_.count(member) == 0) silent.push_back(member);
  }
  return silent;
}

// A member that wants another edit never promises, so no view is decided by members that disagree.
void Agreement::on_prepare(const EditMessage& message, uint64_t now) {
  const bool may_answer = begun_ || !failure_.ok();
  if (!may_answer) return;
  if (message.ballot < promised_) {
    EditMessage refusal = message_of(EditMessage::Subject::kRefused, message.ballot);
    refusal.promised = promised_;
    send(message.from, std::move(refusal));
    return;
  }
  if (message.text != wish_.encode()) {
    EditMessage answer = message_of(EditMessage::Subject::kDiffers, message.ballot);
    answer.text = wish_.describe();
    send(message.from, std::move(answer));
    return;
  }
  if (!begun_) return;
  if (phase_ != BallotPhase::kIdle && ballot_ < message.ballot) give_way(now);
  if (phase_ == BallotPhase::kIdle) wake_at_ = now + rules_.rival_delay(terms_, tries_, random_);
  promised_ = message.ballot;
  highest_counter_ = std::max(highest_counter_, promised_.counter);
  EditMessage promise = message_of(EditMessage::Subject::kPromise, message.ballot);
  promise.proposal = accepted_;
  promise.dead.assign(dead_.begin(), dead_.end());
  send(message.from, std::move(promise));
}

void Agreement::on_promise(const EditMessage& message, uint64_t now) {
  if (phase_ != BallotPhase::kPreparing || message.ballot != ballot_) return;
  promises_[message.from] = message.proposal;
  for (const MemberId member : message.dead) {
    if (member != terms_.self && terms_.previous.holds(member)) dead_.insert(member);
  }
  send_accepts_if_promised(now);
}

void Agreement::on_accept(const EditMessage& message, uint64_t now) {
  if (!begun_) return;
  if (message.ballot < promised_) {
    EditMessage refusal = message_of(EditMessage::Subject::kRefused, message.ballot);
    refusal.promised = promised_;
    send(message.from, std::move(refusal));
    return;
  }
  if (phase_ != BallotPhase::kIdle && ballot_ < message.ballot) give_way(now);
  promised_ = message.ballot;
  highest_counter_ = std::max(highest_counter_, promised_.counter);
  accepted_ = ViewProposal{message.ballot, message.proposal->view};
  send(message.from, message_of(EditMessage::Subject::kAccepted, message.ballot));
}

void Agreement::on_accepted(const EditMessage& message) {
  if (phase_ != BallotPhase::kAccepting || message.ballot != ballot_) return;
  accepts_.insert(message.from);
  adopt_if_accepted();
}

void Agreement::on_refused(const EditMessage& message, uint64_t now) {
  highest_counter_ = std::max(highest_counter_, message.promised.counter);
  if (phase_ != BallotPhase::kIdle && message.ballot == ballot_) give_way(now);
}

void Agreement::adopt(const View& view) {
  adopted_ = view;
  stop();
  EditMessage decision = message_of(EditMessage::Subject::kAdopted, {});
  decision.proposal = ViewProposal{{}, view};
  std::set<MemberId> others(view.members.begin(), view.members.end());
  others.insert(terms_.previous.members.begin(), terms_.previous.members.end());
  for (const MemberId other : others) {
    if (other != terms_.self && dead_.count(other) == 0) send(other, decision);
  }
}

void Agreement::propose(uint64_t now) {
  ++tries_;
  ballot_ = {++highest_counter_, terms_.self};
  phase_ = BallotPhase::kPreparing;
  promised_ = ballot_;
  promises_ = {{terms_.self, accepted_}};
  wake_at_ = now + terms_.retry;
  asked_ = 0;
  ask();
  send_accepts_if_promised(now);
}

void Agreement::send_accepts_if_promised(uint64_t now) {
  if (phase_ != BallotPhase::kPreparing) return;
  if (!rules_.decides(terms_, wish_, keys_of(promises_), dead_)) return;
  std::optional<View> view = rules_.bound_to(promises_);
  if (!view && waits_to_hear_of_death()) return;
  if (!view) view = next_view();
  if (!view) return;  // a newcomer is missing; its arrival comes here again
  proposed_ = std::move(view);
  phase_ = BallotPhase::kAccepting;
  accepted_ = ViewProposal{ballot_, *proposed_};
  accepts_ = {terms_.self};
  wake_at_ = now + terms_.retry;
  ask();
  adopt_if_accepted();
}

/// A view with a dead member is of no use: its links cannot be made.
bool Agreement::waits_to_hear_of_death() const {
  if (wish_.who != Wish::Leave::kDead || asked_ >= kPatientAsks) return false;
  const std::vector<MemberId>& members = terms_.previous.members;
  return std::any_of(members.begin(), members.end(), [this](const MemberId& member) {
    return expects(member) && promises_.count(member) == 0;
  });
}

void Agreement::adopt_if_accepted() {
  if (phase_ != BallotPhase::kAccepting) return;
  if (rules_.decides(terms_, wish_, accepts_, dead_)) adopt(*proposed_);
}

void Agreement::give_way(uint64_t now) {
  phase_ = BallotPhase::kIdle;
  wake_at_ = now + rules_.rival_delay(terms_, tries_, random_);
}

std::optional<View> Agreement::next_view() const {
  const View& previous = terms_.previous;
  const auto order = order_with_newcomers();
  if (!order) return std::nullopt;
  View next{previous.epoch + 1, view_, *order, {}};
  std::vector<MemberId> joining;
  for (const MemberId& member : *order) {
    if (!previous.holds(member)) joining.push_back(member);
  }
  if (wish_.order.empty()) {
    for (const auto& [member, card] : here_) {
      if (joining.size() < wish_.join) joining.push_back(member);
    }
    // A member that has answered is alive, whatever somebody else's connection to it looked like.
    std::vector<MemberId> leaving = wish_.leave;
    if (wish_.who == Wish::Leave::kDead) {
      for (const MemberId member : dead_) {
        if (promises_.count(member) == 0) leaving.push_back(member);
      }
    }
    next.members = next_order(previous.members, leaving, joining);
  }
  if (joining.size() < wish_.join) return std::nullopt;
  for (const MemberId member : joining) {
    const auto card = here_.find(member);
    if (card == here_.end()) return std::nullopt;
    next.newcomers.push_back({member, card->second});
  }
  return next;
}

std::optional<std::vector<MemberId>> Agreement::order_with_newcomers() const {
  const std::set<MemberId> listed(wish_.order.begin(), wish_.order.end());
  std::vector<MemberId> order = wish_.order;
  auto next = here_.begin();
  for (MemberId& member : order) {
    if (member != kAnyNewcomer) continue;
    while (next != here_.end() && listed.count(next->first) != 0) ++next;
    if (next == here_.end()) return std::nullopt;
    member = next++->first;
  }
  return order;
}

void Agreement::fail_if_hopeless() {
  std::set<MemberId> alive;
  for (const MemberId member : terms_.previous.members) {
    if (dead_.count(member) == 0) alive.insert(member);
  }
  if (rules_.decides(terms_, wish_, alive, dead_)) return;
  failure_ = Status::remote_error("an edit of " + std::to_string(terms_.previous.members.size()) +
                                  " members needs more than the " + std::to_string(alive.size()) +
                                  " that are alive: " + wish_.describe());
  stop();
}

bool Agreement::expects(MemberId member) const {
  if (member == terms_.self || dead_.count(member) != 0) return false;
  const std::vector<MemberId>& leave = wish_.leave;
  return std::find(leave.begin(), leave.end(), member) == leave.end();
}

EditMessage Agreement::message_of(EditMessage::Subject kind, const Ballot& ballot) const {
  EditMessage message;
  message.kind = kind;
  message.from = terms_.self;
  message.epoch = terms_.previous.epoch;
  message.view = view_;
  message.ballot = ballot;
  return message;
}

void Agreement::send(MemberId to, EditMessage message) {
  outbox_.push_back({to, std::move(message)});
}

void Agreement::ask() {
  ++asked_;
  const bool preparing = phase_ == BallotPhase::kPreparing;
  EditMessage question = message_of(
      preparing ? EditMessage::Subject::kPrepare : EditMessage::Subject::kAccept, ballot_);
  if (preparing) question.text = wish_.encode();
  if (!preparing) question.proposal = ViewProposal{ballot_, *proposed_};
  // A member that has promised may have adopted meanwhile a view that others decided, and the
  // newcomers that this one waits for may be in it and call no more: so it is asked again.
  const bool waits_for_newcomers =
      preparing && rules_.decides(terms_, wish_, keys_of(promises_), dead_);
  for (const MemberId member : terms_.previous.members) {
    const bool answered = preparing ? promises_.count(member) != 0 : accepts_.count(member) != 0;
    if (expects(member) && (!answered || waits_for_newcomers)) send(member, question);
  }
}

}  // namespace tutti::consensus
