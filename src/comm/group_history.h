// A rank's knowledge of its group beyond one epoch: the present view, where each member can be
// met, and the first key. It outlives the links, so that members agree on the next epoch whatever
// became of them.
//
// Owns:    the machines that agree on the next epoch, and answered for the last one.
// Threads: the view and the keys of ids from any; the rest by whoever edits, one at a time.
// Errors:  read_place() gives kRemoteError for text that write_place() did not make.
// Lifetime: goes from one epoch's communicator to the next one's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/mutex.h"
#include "src/bootstrap/carrier.h"
#include "src/comm/roster.h"
#include "src/consensus/agreement.h"
#include "src/consensus/view.h"

namespace tutti::comm {

/// A newcomer's card in a view.
std::string write_place(const RankAddress& place);
Result<RankAddress> read_place(std::string_view text);

/// The numbers and the key of one epoch: histories that parted have none in common.
bootstrap::GroupKey key_of_epoch(const bootstrap::GroupKey& first, const consensus::View& view);

class GroupHistory {
 public:
  /// `first` belongs to the first epoch; `listener` is this member's, for all epochs.
  GroupHistory(MemberId self, const bootstrap::GroupKey& first,
               std::shared_ptr<const Roster> listener, consensus::View view,
               std::map<MemberId, RankAddress> places);

  const MemberId& self() const { return self_; }
  const bootstrap::GroupKey& first() const { return first_; }
  const std::shared_ptr<const Roster>& listener() const { return listener_; }
  consensus::View view() const;
  /// In the present view; -1: this member is none of it any more.
  int rank() const;
  int ranks() const;
  uint32_t epoch() const;

  /// Of a member of the present view.
  const RankAddress& place(const MemberId& member) const { return places_.at(member); }
  /// All members of the present view are on one host, whose kernel knows who is dead.
  bool is_on_one_host() const;
  /// "process 4711 on alpha (2 in epoch 0)".
  std::string describe(const MemberId& member) const;

  /// An id that this rank has made: who knows its key may ask to be let in.
  void remember_id(const bootstrap::GroupKey& id);
  std::vector<bootstrap::GroupKey> ids() const;
  /// For a newcomer that asks, sealed with the id's key: the first key, the view, the places.
  std::string welcome(uint64_t id) const;

  /// The machine for the successor of the present view, made at its first use.
  consensus::Agreement& agreement(uint64_t seed);
  /// The one that made the present view, to answer who missed it; null: none did here.
  consensus::Agreement* last_agreement() { return last_.get(); }
  /// Whether this rank has the links of the present epoch.
  bool is_built() const { return is_built_; }
  void set_built() { is_built_ = true; }
  /// An adopted view becomes the present one, whose links are to be made. kRemoteError: a
  /// newcomer's card is malformed, as it is for every member.
  Status advance(const consensus::View& next);

 private:
  const MemberId self_;
  const bootstrap::GroupKey first_;
  const std::shared_ptr<const Roster> listener_;
  mutable Mutex mutex_;
  consensus::View view_ TUTTI_GUARDED_BY(mutex_);
  std::vector<bootstrap::GroupKey> ids_ TUTTI_GUARDED_BY(mutex_);
  std::map<MemberId, RankAddress> places_;
  bool is_built_ = true;
  const consensus::Rules rules_;
  std::unique_ptr<consensus::Agreement> agreement_, last_;
};

/// The words of welcome(), opened with the id's key.
struct GroupWelcome {
  bootstrap::GroupKey first;
  consensus::View view;
  std::map<MemberId, RankAddress> places;
  static Result<GroupWelcome> open(const transport::JobKey& id_key, const std::string& sealed);
};

}  // namespace tutti::comm
