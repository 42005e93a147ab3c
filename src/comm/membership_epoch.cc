// The part of Membership about the epoch before: whom it had, and which connections are kept.
#include <algorithm>

#include "src/comm/membership.h"

namespace tutti::comm {

int Membership::rank_of(const MemberId& member) const {
  const auto at = std::find(members_.begin(), members_.end(), member);
  return at == members_.end() ? -1 : static_cast<int>(at - members_.begin());
}

// A connection ends with its last link, so this epoch's joins it while the other one's is there.
Status Membership::keep_connections() {
  if (options_.previous == nullptr) return {};
  std::vector<int> kept;
  for (int peer = 0; peer < ranks(); ++peer) {
    const int before = options_.previous->rank_of(members_[static_cast<size_t>(peer)]);
    const transport::Link* old = before < 0 ? nullptr : options_.previous->link(before);
    if (old == nullptr || old->state() != transport::Link::State::kConnected) continue;
    link(peer)->want();
    kept.push_back(peer);
  }
  for (const int peer : kept) {
    if (Status status = link(peer)->await(patience_with(peer)); !status.ok()) return status;
  }
  return {};
}

// Two links share a connection if they are told of its end by the same descriptor.
LinkChanges Membership::changes_since(const Membership& previous) const {
  LinkChanges changes;
  const auto connection = [](const transport::Link* link) {
    return link == nullptr ? -1 : link->liveness_fd();
  };
  for (int peer = 0; peer < ranks(); ++peer) {
    const int now = connection(link(peer));
    if (now < 0) continue;
    const int old_rank = previous.rank_of(members_[static_cast<size_t>(peer)]);
    const int before = old_rank < 0 ? -1 : connection(previous.link(old_rank));
    int& count = old_rank < 0    ? changes.made_for_newcomers
                 : before < 0    ? changes.made_at_first_use
                 : before == now ? changes.kept
                                 : changes.made_again;
    ++count;
  }
  for (int peer = 0; peer < previous.ranks(); ++peer) {
    const bool has_left = rank_of(previous.group_->members()[static_cast<size_t>(peer)]) < 0;
    if (has_left && connection(previous.link(peer)) >= 0) ++changes.closed;
  }
  return changes;
}

}  // namespace tutti::comm
