// One edit as one rank lives through it: the members agree on the next epoch's view, and exchange
// the cards by which they make its links. A newcomer joins by the same session.
//
// It talks by a carrier (bootstrap/carrier.h) for as long as it lives, so that members that missed
// a decision hear of it from those that did not. The next epoch's rank 0 collects the cards, and
// stays until everybody has them.
//
// Threads: one.
// Errors:  kTimeout names the members that nothing was heard of; kRemoteError says that the next
//          epoch cannot be built; kInvalidUsage that members want different edits, or that the
//          others have removed this rank.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/wait_limit.h"
#include "src/bootstrap/carrier.h"
#include "src/comm/group_history.h"
#include "src/consensus/joiner.h"
#include "src/consensus/wish.h"

namespace tutti::comm {

class EditSession {
 public:
  /// Whether the last connection of the old epoch with a member is lost; it may live all the same.
  using IsLost = std::function<bool(const MemberId&)>;

  static Result<std::unique_ptr<EditSession>> open(GroupHistory& history, IsLost is_lost);
  /// Says what is left to say.
  ~EditSession();

  /// Until the next view is adopted, which is then the history's. After an error the present one
  /// stays, and the call may be repeated.
  Status agree(const consensus::Wish& wish, const WaitLimit& wait_limit);
  /// The newcomer's way to the same. False: the group has gone on without it, and it has to ask
  /// anew.
  Result<bool> join(const WaitLimit& wait_limit);
  /// Everybody's card of the adopted epoch, by rank.
  Result<std::vector<std::string>> exchange(std::string_view card, const WaitLimit& wait_limit);
  /// While links are made: why that is in vain. Never waits.
  Status check_building();
  /// The links could not be made here: the others are told.
  void give_up(const Status& reason);
  /// The links are made here. Waits until everybody has its cards, or the wait limit is over.
  Status finish(const WaitLimit& wait_limit);

 private:
  enum class SessionStage : uint8_t { kAgreeing, kBuilding };
  enum MessageKind : uint8_t {
    kConsensus = 1,  // consensus::EditMessage
    kCard,           // of the sender, for the first member
    kCardPlease,     // of the receiver
    kCards,          // of all
    kHasCards,       // the sender
    kGaveUp,         // the sender cannot build the epoch
    kUnknownEpoch,   // what the receiver said of the epoch in it is about one that is long over
  };

  EditSession(GroupHistory& history, IsLost is_lost);
  void know_members();
  void turn(uint64_t until_ns);
  void speak();
  void take(const bootstrap::CarriedMessage& message);
  void take_consensus(const bootstrap::CarriedMessage& message);
  void take_building(const bootstrap::CarriedMessage& message);
  void mark_dead();
  void send_consensus(std::vector<consensus::Envelope> envelopes);
  void send_building(const MemberId& to, MessageKind kind, std::string_view bytes = {});
  std::string lateness(const consensus::Agreement& agreement) const;
  Status adopt(const consensus::View& view);
  Result<std::vector<std::string>> collect(const WaitLimit& wait_limit);
  Result<std::vector<std::string>> ask_for_cards(const WaitLimit& wait_limit);
  Status building_failure() const;
  uint64_t seed() const;

  GroupHistory& history_;
  const IsLost is_lost_;
  const uint64_t opened_ns_;
  std::unique_ptr<bootstrap::MemberCarrier> carrier_;
  std::unique_ptr<consensus::Joiner> joiner_;
  bool has_to_ask_anew_ = false;
  SessionStage stage_ = SessionStage::kAgreeing;
  consensus::Digest digest_{};  // of the epoch that is built
  std::string own_card_;
  std::map<consensus::Digest, std::map<MemberId, std::string>> cards_;
  std::map<consensus::Digest, std::string> given_up_;
  std::string all_cards_;  // of the epoch that is built, once known
  std::set<MemberId> has_cards_;
  std::set<MemberId> newcomers_;  // that are connected
};

}  // namespace tutti::comm
