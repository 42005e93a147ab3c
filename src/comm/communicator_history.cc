// The part of Communicator about the epochs of its group.
#include <utility>

#include "src/comm/communicator.h"

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

Result<std::shared_ptr<GroupHistory>> Communicator::history() {
  const std::lock_guard lock(history_mutex_);
  if (history_ != nullptr) return history_;
  std::shared_ptr<const Roster> roster = membership_->roster();
  if (!roster->listener.valid()) {
    auto alone = listen_alone(*roster, options_.membership.self.bind_address);
    if (!alone.ok()) return alone.status();
    roster = std::move(alone).value();
  }
  const std::vector<MemberId>& members = membership_->group()->members();
  std::map<MemberId, RankAddress> places;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    places.emplace(members[rank], roster->places[rank]);
  }
  const bootstrap::GroupKey first{id(), options_.membership.self.key};
  history_ = std::make_shared<GroupHistory>(membership_->member(), first, std::move(roster),
                                            consensus::View{0, {}, members, {}}, std::move(places));
  return history_;
}

uint32_t Communicator::standing_epoch() const {
  const std::lock_guard lock(history_mutex_);
  return history_ == nullptr ? 0 : history_->epoch();
}

int Communicator::standing_rank() const {
  const std::lock_guard lock(history_mutex_);
  return history_ == nullptr ? rank() : history_->rank();
}

int Communicator::standing_ranks() const {
  const std::lock_guard lock(history_mutex_);
  return history_ == nullptr ? ranks() : history_->ranks();
}

std::vector<MemberId> Communicator::standing_members() const {
  const std::lock_guard lock(history_mutex_);
  return history_ == nullptr ? membership_->group()->members() : history_->view().members;
}

Status Communicator::check_editable() {
  if (device_calls_ != nullptr || is_replayed()) {
    return Status(Code::kUnsupported,
                  "a communicator whose ranks have devices cannot be edited in place yet: its "
                  "streams and graphs hold the present epoch; shrink or grow it");
  }
  if (memory_->has_any()) {
    return Status(Code::kUnsupported,
                  "a communicator with open windows or registered memory cannot be edited in "
                  "place yet: close and deregister them first");
  }
  return {};
}

}  // namespace tutti::comm
