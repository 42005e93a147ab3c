#include "src/comm/edit_session.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/consensus/bytes.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kTurnNs = 20 * kNanosecondsPerMillisecond;
constexpr uint64_t kShortTurnNs = kNanosecondsPerMillisecond;
constexpr uint64_t kLongestSpeechNs = 100 * kNanosecondsPerMillisecond;
constexpr uint64_t kRepeatNs = 100 * kNanosecondsPerMillisecond;
// A member whose link is lost may answer by its listener; after so long its host is taken for lost.
constexpr uint64_t kSilenceNs = 5 * kNanosecondsPerSecond;
// For members that want another edit, to hear of it.
constexpr uint64_t kLingerNs = kNanosecondsPerSecond;

uint64_t now_ms() { return monotonic_ns() / kNanosecondsPerMillisecond; }

uint64_t at_ms(uint64_t ms) {
  return ms > kNoDeadline / kNanosecondsPerMillisecond ? kNoDeadline
                                                       : ms * kNanosecondsPerMillisecond;
}

std::string write_cards(const std::vector<std::string>& cards) {
  consensus::ByteWriter out;
  for (const std::string& card : cards) out.text(card);
  return std::move(out).bytes();
}

Result<std::vector<std::string>> read_cards(std::string_view bytes, size_t count) {
  consensus::ByteReader in(bytes);
  std::vector<std::string> cards;
  for (size_t i = 0; i < count; ++i) cards.push_back(in.text());
  if (!in.finished()) return Status::remote_error("rank 0 sent cards that are malformed");
  return cards;
}

}  // namespace

EditSession::EditSession(GroupHistory& history, IsLost is_lost)
    : history_(history), is_lost_(std::move(is_lost)), opened_ns_(monotonic_ns()) {}

Result<std::unique_ptr<EditSession>> EditSession::open(GroupHistory& history, IsLost is_lost) {
  std::unique_ptr<EditSession> made(new EditSession(history, std::move(is_lost)));
  bootstrap::MemberCarrier::CarrierOptions options;
  options.self = history.self();
  options.members = history.first();
  options.guests = history.ids();
  options.welcome = [&history](uint64_t id) { return history.welcome(id); };
  auto carrier =
      bootstrap::MemberCarrier::open(history.listener()->listener.get(), std::move(options));
  if (!carrier.ok()) return carrier.status();
  made->carrier_ = std::move(carrier).value();
  made->know_members();
  return made;
}

EditSession::~EditSession() {
  if (carrier_ != nullptr) carrier_->flush(deadline_after(kNanosecondsPerSecond));
}

void EditSession::know_members() {
  for (const MemberId& member : history_.view().members) {
    if (member == history_.self()) continue;
    const RankAddress& place = history_.place(member);
    carrier_->know(member, place.address, place.port);
  }
}

uint64_t EditSession::seed() const {
  const MemberId& self = history_.self();
  return self.process.low ^ (uint64_t{self.number} << 32) ^ history_.epoch();
}

// News of a decision go over the connections that there are: the proposer has one with each member
// that answered, and a member without one asks. Else all would call all.
void EditSession::send_consensus(std::vector<consensus::Envelope> envelopes) {
  for (const consensus::Envelope& envelope : envelopes) {
    const bool is_news = envelope.message.kind == consensus::EditMessage::Subject::kAdopted;
    if (is_news && !carrier_->is_connected(envelope.to)) continue;
    carrier_->send(envelope.to, kConsensus, envelope.message.encode());
  }
}

void EditSession::send_building(const MemberId& to, MessageKind kind, std::string_view bytes) {
  std::string framed(reinterpret_cast<const char*>(digest_.data()), digest_.size());
  carrier_->send(to, kind, framed.append(bytes));
}

void EditSession::turn(uint64_t until_ns) {
  for (const bootstrap::CarriedMessage& message : carrier_->receive(until_ns)) take(message);
}

// Else it would go out when this rank has time for its next turn, and the others wait for it.
void EditSession::speak() {
  const uint64_t until_ns = deadline_after(kLongestSpeechNs);
  const std::vector<MemberId> members = history_.view().members;
  while (!carrier_->has_sent_all(members) && monotonic_ns() < until_ns) {
    turn(deadline_after(kShortTurnNs));
  }
}

void EditSession::take(const bootstrap::CarriedMessage& message) {
  if (message.kind == kConsensus) {
    take_consensus(message);
  } else if (message.kind == kUnknownEpoch) {
    // An answer to words of an earlier epoch may come late.
    consensus::ByteReader in(message.bytes);
    if (in.number() == history_.epoch() && in.finished()) has_to_ask_anew_ = true;
  } else if (message.bytes.size() >= digest_.size()) {
    take_building(message);
  }
}

void EditSession::take_consensus(const bootstrap::CarriedMessage& carried) {
  const Result<consensus::EditMessage> read = consensus::EditMessage::decode(carried.bytes);
  if (!read.ok() || read.value().from != carried.from) return;
  const consensus::EditMessage& message = read.value();
  if (joiner_ != nullptr) {
    joiner_->receive(message);
    return;
  }
  const uint32_t present = history_.epoch();
  if (message.kind == consensus::EditMessage::Subject::kHere) {
    const Result<RankAddress> place = read_place(message.text);
    if (!place.ok()) return;
    carrier_->know(carried.from, place.value().address, place.value().port);
    newcomers_.insert(carried.from);
  }
  if (message.epoch == present) {
    consensus::Agreement& agreement = history_.agreement(seed());
    agreement.receive(message, now_ms());
    send_consensus(agreement.take_messages());
  } else if (message.epoch + 1 == present && history_.last_agreement() != nullptr) {
    consensus::Agreement& last = *history_.last_agreement();
    last.receive(message, now_ms());
    send_consensus(last.take_messages());
  } else if (message.epoch < present) {
    consensus::ByteWriter epoch;
    epoch.number(message.epoch);
    carrier_->send(carried.from, kUnknownEpoch, std::move(epoch).bytes());
  }
}

// A member that asks for the cards of an epoch that this one has given up hears so; cards of one
// that this member has yet to learn of are kept.
void EditSession::take_building(const bootstrap::CarriedMessage& message) {
  consensus::Digest digest{};
  std::copy_n(message.bytes.begin(), digest.size(), digest.begin());
  std::string bytes = message.bytes.substr(digest.size());
  const bool asks = message.kind == kCard || message.kind == kCardPlease;
  const bool is_present = digest == history_.view().digest();
  if (asks && stage_ == SessionStage::kAgreeing && is_present && !history_.is_built()) {
    std::string framed = message.bytes.substr(0, digest.size());
    carrier_->send(message.from, kGaveUp,
                   framed.append(history_.describe(history_.self()) + " has given it up"));
    return;
  }
  const bool is_built = stage_ == SessionStage::kBuilding && digest == digest_;
  switch (message.kind) {
    case kCard:
      cards_[digest][message.from] = std::move(bytes);
      if (is_built && !all_cards_.empty()) send_building(message.from, kCards, all_cards_);
      return;
    case kCardPlease:
      if (is_built && !own_card_.empty()) send_building(message.from, kCard, own_card_);
      return;
    case kCards:
      if (is_built) all_cards_ = std::move(bytes);
      return;
    case kHasCards:
      if (is_built) has_cards_.insert(message.from);
      return;
    case kGaveUp:
      given_up_.emplace(digest, std::move(bytes));
      return;
    default:
      return;
  }
}

void EditSession::mark_dead() {
  consensus::Agreement& agreement = history_.agreement(seed());
  const bool may_suspect = !history_.is_on_one_host() && monotonic_ns() - opened_ns_ > kSilenceNs;
  for (const MemberId& member : history_.view().members) {
    if (member == history_.self()) continue;
    const bool is_dead = carrier_->gone().count(member) != 0;
    const bool is_silent = may_suspect && !carrier_->is_connected(member) && is_lost_(member);
    if (is_dead || is_silent) agreement.mark_dead(member, now_ms());
  }
  // A newcomer keeps its connection until it is told.
  std::erase_if(newcomers_, [&](const MemberId& newcomer) {
    const bool is_here = carrier_->is_connected(newcomer);
    if (!is_here) agreement.mark_dead(newcomer, now_ms());
    return !is_here;
  });
}

std::string EditSession::lateness(const consensus::Agreement& agreement) const {
  std::string text = "the members have not agreed on the next epoch in time";
  const std::vector<MemberId> silent = agreement.silent();
  if (silent.empty()) return text + ": all answer, so newcomers are missing, or too few may decide";
  text += "; nothing was heard of";
  for (size_t i = 0; i < silent.size(); ++i) {
    text += (i == 0 ? " " : ", ") + history_.describe(silent[i]);
  }
  return text + ": every member that stays must call tuttiCommEdit, and its process must run";
}

Status EditSession::agree(const consensus::Wish& wish, const WaitLimit& wait_limit) {
  stage_ = SessionStage::kAgreeing;
  consensus::Agreement& agreement = history_.agreement(seed());
  if (Status status = agreement.begin(wish, now_ms()); !status.ok()) return status;
  wait_limit.waits_for(history_.describe(history_.self()) + " agrees on the next epoch");
  while (!agreement.adopted()) {
    mark_dead();
    agreement.tick(now_ms());
    send_consensus(agreement.take_messages());
    if (agreement.adopted()) break;
    if (!agreement.failure().ok()) {
      const Status failure = agreement.failure();
      const uint64_t until_ns = deadline_after(kLingerNs);
      while (monotonic_ns() < until_ns && !wait_limit.over()) turn(deadline_after(kTurnNs));
      return failure;
    }
    if (has_to_ask_anew_) {
      agreement.stop();
      return Status::invalid_usage("the other members have gone on without this rank");
    }
    wait_limit.tell_if_due();
    if (wait_limit.over()) {
      agreement.stop();
      return wait_limit.reason(lateness(agreement));
    }
    turn(std::min(at_ms(agreement.wake_at()), deadline_after(kTurnNs)));
  }
  send_consensus(agreement.take_messages());
  if (Status status = adopt(*agreement.adopted()); !status.ok()) return status;
  speak();
  return {};
}

Status EditSession::adopt(const consensus::View& view) {
  if (Status status = history_.advance(view); !status.ok()) return status;
  know_members();
  stage_ = SessionStage::kBuilding;
  digest_ = history_.view().digest();
  own_card_.clear();
  all_cards_.clear();
  has_cards_.clear();
  if (history_.rank() >= 0) return {};
  return Status::invalid_usage("the other members have removed this rank: epoch " +
                               std::to_string(history_.epoch()) + " goes on without it");
}

Result<bool> EditSession::join(const WaitLimit& wait_limit) {
  // It was let in, and missed the news.
  if (history_.view().holds(history_.self())) {
    const Status status = adopt(history_.view());
    if (!status.ok()) return status;
    return true;
  }
  const RankAddress& own = history_.listener()->places.front();
  joiner_ = std::make_unique<consensus::Joiner>(history_.view(), history_.self(), write_place(own),
                                                kRepeatNs / kNanosecondsPerMillisecond);
  while (!joiner_->adopted()) {
    joiner_->tick(now_ms());
    send_consensus(joiner_->take_messages());
    if (joiner_->left_behind() || has_to_ask_anew_) return false;
    const std::vector<MemberId> members = history_.view().members;
    const bool all_gone = std::all_of(members.begin(), members.end(), [&](const MemberId& member) {
      return carrier_->gone().count(member) != 0;
    });
    if (all_gone) return Status::remote_error("all members of the group are gone");
    wait_limit.tell_if_due();
    if (wait_limit.over()) {
      return wait_limit.reason("the members have not let this newcomer in: is it waited for?");
    }
    turn(std::min(at_ms(joiner_->wake_at()), deadline_after(kTurnNs)));
  }
  const consensus::View view = *joiner_->adopted();
  joiner_ = nullptr;
  if (Status status = adopt(view); !status.ok()) return status;
  return true;
}

Status EditSession::building_failure() const {
  const std::string epoch = "epoch " + std::to_string(history_.epoch());
  const auto given_up = given_up_.find(digest_);
  if (given_up != given_up_.end()) {
    return Status::remote_error(epoch + " cannot be built: " + given_up->second);
  }
  for (const MemberId& member : history_.view().members) {
    if (carrier_->gone().count(member) == 0) continue;
    return Status::remote_error(epoch + " cannot be built: " + history_.describe(member) +
                                " is gone");
  }
  return {};
}

Status EditSession::check_building() {
  turn(0);
  return building_failure();
}

Result<std::vector<std::string>> EditSession::exchange(std::string_view card,
                                                       const WaitLimit& wait_limit) {
  own_card_ = card;
  if (history_.ranks() == 1) return std::vector<std::string>{own_card_};
  return history_.rank() == 0 ? collect(wait_limit) : ask_for_cards(wait_limit);
}

Result<std::vector<std::string>> EditSession::collect(const WaitLimit& wait_limit) {
  const consensus::View view = history_.view();
  uint64_t repeat_ns = deadline_after(kRepeatNs);
  cards_[digest_][history_.self()] = own_card_;
  while (cards_[digest_].size() < view.members.size()) {
    const bool repeats = monotonic_ns() >= repeat_ns;
    std::string missing;
    for (const MemberId& member : view.members) {
      if (cards_[digest_].count(member) != 0) continue;
      missing += (missing.empty() ? "" : ", ") + history_.describe(member);
      if (repeats) send_building(member, kCardPlease);
    }
    if (repeats) repeat_ns = deadline_after(kRepeatNs);
    if (Status status = building_failure(); !status.ok()) return status;
    wait_limit.tell_if_due();
    if (wait_limit.over()) return wait_limit.reason("the next epoch waits for " + missing);
    turn(std::min(repeat_ns, deadline_after(kTurnNs)));
  }
  std::vector<std::string> cards;
  for (const MemberId& member : view.members) cards.push_back(cards_[digest_][member]);
  cards_.clear();
  all_cards_ = write_cards(cards);
  for (const MemberId& member : view.members) {
    if (member != history_.self()) send_building(member, kCards, all_cards_);
  }
  speak();
  return cards;
}

Result<std::vector<std::string>> EditSession::ask_for_cards(const WaitLimit& wait_limit) {
  const consensus::View view = history_.view();
  const MemberId& first = view.members.front();
  uint64_t repeat_ns = 0;
  while (all_cards_.empty()) {
    if (monotonic_ns() >= repeat_ns) {
      send_building(first, kCard, own_card_);
      repeat_ns = deadline_after(kRepeatNs);
    }
    if (Status status = building_failure(); !status.ok()) return status;
    wait_limit.tell_if_due();
    if (wait_limit.over()) {
      return wait_limit.reason("the next epoch waits for " + history_.describe(first));
    }
    turn(std::min(repeat_ns, deadline_after(kTurnNs)));
  }
  send_building(first, kHasCards);
  speak();
  return read_cards(all_cards_, view.members.size());
}

void EditSession::give_up(const Status& reason) {
  const std::string text =
      history_.describe(history_.self()) + ": " + std::string(reason.message());
  for (const MemberId& member : history_.view().members) {
    if (member != history_.self()) send_building(member, kGaveUp, text);
  }
  turn(0);
}

// A member that has no connection with this one for so long has its cards: it would ask for them.
Status EditSession::finish(const WaitLimit& wait_limit) {
  constexpr uint64_t kAwayNs = 5 * kRepeatNs;
  const consensus::View view = history_.view();
  if (history_.rank() != 0) {
    speak();  // the first member waits for the word that this one has them
    return {};
  }
  std::map<MemberId, uint64_t> away_since_ns;
  for (const MemberId& member : view.members) {
    if (member != history_.self()) away_since_ns[member] = kNoDeadline;
  }
  while (!away_since_ns.empty()) {
    for (auto& [member, since_ns] : away_since_ns) {
      const bool is_here = carrier_->is_connected(member);
      since_ns = is_here ? kNoDeadline : std::min(since_ns, monotonic_ns());
    }
    const uint64_t now_ns = monotonic_ns();
    std::erase_if(away_since_ns, [&](const auto& entry) {
      const bool is_away = entry.second != kNoDeadline && now_ns - entry.second > kAwayNs;
      return is_away || has_cards_.count(entry.first) != 0;
    });
    if (away_since_ns.empty()) return {};
    if (Status status = check_building(); !status.ok()) return status;
    // The epoch stands here. A member without cards ends with an error of its own.
    if (wait_limit.over()) return wait_limit.cancelled() ? wait_limit.reason("") : Status();
    turn(deadline_after(kTurnNs));
  }
  return {};
}

}  // namespace tutti::comm
