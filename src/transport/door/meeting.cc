#include "src/transport/door/meeting.h"

#include <utility>

#include "src/transport/door/call.h"

namespace tutti::transport::door {

Identity LinkMeeting::identity(const Member& member, int peer, Purpose purpose) {
  Identity self;
  self.rank = member.rank;
  self.peer = peer;
  self.communicator = member.communicator;
  self.epoch = member.epoch;
  self.purpose = purpose;
  return self;
}

LinkMeeting::LinkMeeting(KeptFd listener, const Member& member, Purpose purpose, Gate::Vet vet)
    : member_(member),
      purpose_(purpose),
      gate_(std::move(listener), member.key, identity(member, -1, purpose), std::move(vet)) {}

LinkMeeting::MadeLink LinkMeeting::meet(int peer, const Dial& dial, const Introduce& introduce,
                                        const WaitLimit& wait_limit) {
  if (member_.rank > peer) return await(peer, introduce, wait_limit);
  Result<KeptFd> socket =
      pass_gate(dial, member_.key, identity(member_, peer, purpose_), wait_limit);
  if (!socket.ok()) return socket.status();
  return introduce(std::move(socket).value(), peer);
}

LinkMeeting::MadeLink LinkMeeting::await(int peer, const Introduce& introduce,
                                         const WaitLimit& wait_limit) {
  while (!early_.contains(peer)) {
    Result<Gate::AdmittedCaller> caller = gate_.next(wait_limit);
    if (!caller.ok()) return caller.status();
    const int rank = caller.value().rank;
    if (rank >= member_.rank) continue;  // only lower ranks call; a member that lies is ignored
    MadeLink link = introduce(std::move(caller.value().fd), rank);
    if (!link.ok() && rank == peer) return link;
    if (link.ok()) early_[rank] = std::move(link).value();
  }
  return std::move(early_.extract(peer).mapped());
}

}  // namespace tutti::transport::door
