#include "src/comm/removed_members.h"

#include "src/base/clock.h"
#include "src/base/wait.h"

namespace tutti::comm {

RemovedMembers::~RemovedMembers() {
  if (is_final_) return;
  for (const int rank : barred_) epoch_.memory().bar(rank, false);
}

Status RemovedMembers::keep_out(const std::vector<MemberId>& leaving, const WaitLimit& wait_limit) {
  const Membership& members = epoch_.membership();
  std::vector<int> ranks;
  for (const MemberId& member : leaving) {
    const int rank = members.rank_of(member);
    transport::Link* link = rank < 0 ? nullptr : members.link(rank);
    const bool has_mapped = link != nullptr && link->mapped() != nullptr;
    if (!has_mapped || link->capabilities().all_memory) continue;
    epoch_.memory().bar(rank, true);
    barred_.push_back(rank);
    ranks.push_back(rank);
  }
  for (const int rank : ranks) {
    if (Status status = wait_for(rank, wait_limit); !status.ok()) return status;
  }
  return {};
}

// A process that runs is out of a window when it has copied a piece.
Status RemovedMembers::wait_for(int rank, const WaitLimit& wait_limit) const {
  transport::Link& link = *epoch_.membership().link(rank);
  const uint64_t kill_at_ns = kills_ ? deadline_after(kStretchPatienceNs) : kNoDeadline;
  constexpr uint32_t kSpins = 100;
  Backoff backoff(kSpins);
  bool is_killed = false;
  for (;;) {
    const std::string reach = epoch_.memory().within_reach_of(rank);
    if (reach.empty() || !link.status().ok()) return {};
    if (!is_killed && monotonic_ns() >= kill_at_ns) {
      Status killed = link.mapped()->kill_peer();
      if (!killed.ok()) {
        return Status(killed.code(), epoch_.membership().name_of(rank) + " may still write to " +
                                         reach + ", and " + std::string(killed.message()));
      }
      is_killed = true;
    }
    const std::string late = epoch_.membership().name_of(rank) +
                             " is to be removed, lives, and may still write to " + reach +
                             ": let it end its communicator or its process, or let the edit kill "
                             "it (kill_removed)";
    wait_limit.waits_for(late);
    wait_limit.tell_if_due();
    if (wait_limit.over()) return wait_limit.reason(late);
    backoff.pause();
  }
}

}  // namespace tutti::comm
