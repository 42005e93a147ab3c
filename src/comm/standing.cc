#include "src/comm/standing.h"

#include <map>
#include <utility>

namespace tutti::comm {
namespace {

/// A group of one rank listens nowhere until somebody is to come.
Result<std::shared_ptr<const Roster>> listen_alone(const Roster& known,
                                                   const std::string& bind_address) {
  Result<bootstrap::Address> address = bootstrap::Address::parse(bind_address);
  if (!address.ok()) return address.status();
  Result<bootstrap::Listener> listener = bootstrap::listen_on(address.value(), 0);
  if (!listener.ok()) return listener.status();
  auto made = std::make_shared<Roster>();
  made->key = known.key;
  made->places = known.places;
  made->places.front().address = address.value();
  made->places.front().port = listener.value().port;
  made->listener = std::move(listener.value().fd);
  return std::shared_ptr<const Roster>(made);
}

}  // namespace

Result<std::shared_ptr<GroupHistory>> Standing::history() {
  const MutexLock lock(mutex_);
  if (history_ != nullptr) return history_;
  std::shared_ptr<const Roster> roster = membership_.roster();
  if (!roster->listener.valid()) {
    auto alone = listen_alone(*roster, bind_address_);
    if (!alone.ok()) return alone.status();
    roster = std::move(alone).value();
  }
  const std::vector<MemberId>& members = membership_.group()->members();
  std::map<MemberId, RankAddress> places;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    places.emplace(members[rank], roster->places[rank]);
  }
  history_ = std::make_shared<GroupHistory>(membership_.member(), first_, std::move(roster),
                                            consensus::View{0, {}, members, {}}, std::move(places));
  return history_;
}

uint32_t Standing::epoch() const {
  const MutexLock lock(mutex_);
  return history_ == nullptr ? 0 : history_->epoch();
}

int Standing::rank() const {
  const MutexLock lock(mutex_);
  return history_ == nullptr ? membership_.rank() : history_->rank();
}

int Standing::ranks() const {
  const MutexLock lock(mutex_);
  return history_ == nullptr ? membership_.ranks() : history_->ranks();
}

std::vector<MemberId> Standing::members() const {
  const MutexLock lock(mutex_);
  return history_ == nullptr ? membership_.group()->members() : history_->view().members;
}

}  // namespace tutti::comm
