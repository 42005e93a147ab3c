#include "transports/tcp/doorman.h"

#include <string>
#include <utility>

namespace tutti::transports::tcp {
namespace {

transport::Identity identity_of(const transport::Member& member) {
  transport::Identity self;
  self.rank = member.rank;
  self.communicator = member.communicator;
  self.epoch = member.epoch;
  self.purpose = transport::Purpose::kTcp;
  return self;
}

}  // namespace

Doorman::Doorman(Fd listener, const transport::Member& member)
    : rank_(member.rank), gate_(std::move(listener), member.key, identity_of(member)) {}

Result<Fd> Doorman::admit(int peer, uint64_t deadline_ns) {
  for (;;) {
    if (const auto found = admitted_.find(peer); found != admitted_.end()) {
      Fd fd = std::move(found->second);
      admitted_.erase(found);
      return fd;
    }
    Result<transport::Gate::Caller> caller = gate_.next(deadline_ns);
    if (!caller.ok()) return caller.status();
    const int rank = caller.value().rank;
    // A higher rank never calls, whatever key it holds. Who calls again means the newer call.
    if (rank < rank_) admitted_[rank] = std::move(caller).value().fd;
  }
}

}  // namespace tutti::transports::tcp
