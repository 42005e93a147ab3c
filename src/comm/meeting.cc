#include "src/comm/meeting.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/base/prng.h"
#include "src/bootstrap/group.h"
#include "src/bootstrap/secrets.h"

namespace tutti::comm {
namespace {

/// Tells lists of members apart.
uint64_t number_of(const std::vector<int>& members) {
  uint64_t number = 0;
  for (const int member : members) {
    number ^= static_cast<uint64_t>(member) + 1;
    number = splitmix64(number);
  }
  return number;
}

// Of who does not go on once all have come: the server is there, or about to be, and may be busy.
constexpr uint64_t kFarewellNs = 10 * kNanosecondsPerSecond;

// How long the server of a meeting that comes to nothing stays for the ranks that are late.
constexpr uint64_t kForOthersNs = 2 * kNanosecondsPerSecond;

}  // namespace

Meeting::Meeting(std::shared_ptr<const Roster> roster, std::vector<int> members,
                 MeetingPurpose purpose)
    : roster_(std::move(roster)), members_(std::move(members)), purpose_(std::move(purpose)) {
  const RankAddress& place = roster_->places[static_cast<size_t>(members_.front())];
  join_.id.addresses = {place.address};
  join_.id.port = place.port;
  join_.id.key = bootstrap::derive_key(roster_->key, "meeting");
  join_.id.job = bootstrap::derive_job(roster_->key, "meeting");
  join_.ranks = static_cast<int>(roster_->places.size());
  join_.rank = roster_->rank;
  join_.members = number_of(members_);
  join_.meeting_number = purpose_.meeting_number;
  join_.wait_limit = purpose_.wait_limit;
  join_.listens_already = true;
  join_.awaited = roster_->describe(members_.front()) + " has not called " + purpose_.what;
}

Result<std::unique_ptr<bootstrap::Server>> Meeting::serve(bootstrap::ServerOptions options) const {
  if (members_.front() != roster_->rank) return std::unique_ptr<bootstrap::Server>();
  for (int rank = 0; rank < join_.ranks; ++rank) {
    const bool member = std::binary_search(members_.begin(), members_.end(), rank);
    if (!member) options.left_out.push_back(rank);
  }
  options.meeting_number = purpose_.meeting_number;
  KeptFd listener =
      KeptFd::open([this] { return fcntl(roster_->listener.get(), F_DUPFD_CLOEXEC, 0); });
  if (!listener.valid()) return errno_status("dup");
  return bootstrap::Server::start_on(std::move(listener), join_.id, options);
}

Result<std::vector<std::string>> Meeting::exchange(std::string_view blob) {
  if (members_.size() == 1) return std::vector<std::string>{std::string(blob)};
  const auto server = serve({.one_of_many = true});
  if (!server.ok()) return explain(server.status());
  bootstrap::JoinOptions join = join_;
  // Later a member that is done may end what the sense is about.
  if (!all_have_come_ && purpose_.sense) {
    join.wait_limit = join.wait_limit.as_long_as(purpose_.sense);
  }
  if (server.value() != nullptr) {
    join.look_ns = purpose_.look_ns;
    join.look = [&] {
      if (Status status = look_for_members(); !status.ok()) server.value()->fail(status);
    };
  }
  const auto blobs = bootstrap::exchange(join, blob);
  if (!blobs.ok()) {
    const Status reason = explain(blobs.status());
    if (server.value() != nullptr) server.value()->fail(reason);
    // A rank that could not be let in learns of it as soon as the others have gone.
    const bool had_no_room = reason.code() == Code::kSystemError;
    if (server.value() != nullptr && had_no_room) {
      server.value()->finish(monotonic_ns() + kForOthersNs);
    }
    return reason;
  }
  all_have_come_ = true;
  if (server.value() != nullptr) server.value()->finish(purpose_.wait_limit);
  std::vector<std::string> of_members;
  for (const int member : members_) {
    of_members.push_back(blobs.value()[static_cast<size_t>(member)]);
  }
  return of_members;
}

// Where this member serves, the others come about now; who comes later waits for the next meeting.
void Meeting::decline() {
  if (members_.size() == 1) return;
  const auto server = serve({.linger_ns = kForOthersNs, .one_of_many = true});
  if (!server.ok()) return;
  if (server.value() == nullptr) {
    bootstrap::JoinOptions join = join_;
    if (all_have_come_ && !purpose_.wait_limit.cancelled()) join.farewell_ns = kFarewellNs;
    return bootstrap::decline(join);
  }
  server.value()->fail(explain(
      Status::remote_error(roster_->describe(members_.front()) + " could not go on; see there")));
  server.value()->finish(monotonic_ns() + 2 * kForOthersNs);
}

// A connection that is made, or times out, says nothing against the member. Those that do not
// answer take the time of a look, so the next one begins behind the last that was reached.
Status Meeting::look_for_members() {
  constexpr uint64_t kDialNs = kNanosecondsPerSecond / 4, kLookNs = 2 * kNanosecondsPerSecond;
  const uint64_t end_ns = monotonic_ns() + kLookNs;
  for (size_t i = 0; i < members_.size() && monotonic_ns() < end_ns; ++i) {
    const int member = members_[looked_++ % members_.size()];
    const RankAddress& place = roster_->places[static_cast<size_t>(member)];
    const Status status =
        bootstrap::dial(place.address, place.port, purpose_.wait_limit.at_most(kDialNs)).status();
    if (purpose_.wait_limit.cancelled()) return {};  // this rank's own end
    if (status.code() != Code::kRemoteError) continue;
    return Status::remote_error(roster_->describe(member) + " is gone: nobody listens at " +
                                place.address.text(place.port) + " (" +
                                std::string(status.message()) + ")");
  }
  return {};
}

Status Meeting::explain(const Status& reason) const {
  return Status(reason.code(), purpose_.what + " on rank " + std::to_string(roster_->rank) +
                                   ": the ranks meet at " + roster_->describe(members_.front()) +
                                   ": " + std::string(reason.message()) +
                                   "; all who are not left out must call " + purpose_.what +
                                   " with the same arguments, and their processes must run");
}

}  // namespace tutti::comm
