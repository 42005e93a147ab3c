// The part of Connector about the ranks that can be called here: seats, doors, and links of seats.
#include <algorithm>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

// Where nobody has numbered the members, no two communicators have one in common.
MemberId id_of(const transport::Member& member, int rank) {
  if (!member.members.empty()) return member.members[static_cast<size_t>(rank)];
  return {{member.communicator, member.epoch}, static_cast<uint32_t>(rank)};
}

}  // namespace

transport::door::Identity Connector::identity_of(const transport::Member& member, int peer) {
  transport::door::Identity self;
  self.rank = member.rank;
  self.peer = peer;
  self.communicator = member.communicator;
  self.epoch = member.epoch;
  self.purpose = transport::door::purpose_of("tcp");
  return self;
}

Result<Connector::ListeningDoor*> Connector::open_door(const transport::Member& member) {
  const auto found = doors_.find(member.bind_address);
  if (found != doors_.end()) return found->second.get();
  Result<IpEndpoint> wanted = parse_endpoint(member.bind_address, 0);
  if (!wanted.ok()) return wanted.status();
  if (wanted.value().wildcard()) {
    return Status::invalid_argument("'" + member.bind_address +
                                    "' is no address that peers could connect to: give the "
                                    "address of one interface");
  }
  Result<KeptFd> listener = listen_on(wanted.value());
  if (!listener.ok()) {
    return Status::system_error("rank " + std::to_string(member.rank) + " cannot listen on " +
                                member.bind_address + ": " +
                                std::string(listener.status().message()));
  }
  Result<IpEndpoint> place = local_endpoint(listener.value().get());
  if (!place.ok()) return place.status();
  const auto locks = [this](const transport::door::Identity& caller) {
    mutex_.assert_held();
    return lock_for(caller);
  };
  auto door = std::make_unique<ListeningDoor>(place.value(), std::move(listener).value(), locks);
  door->tag = ++last_door_;
  if (Status status = door->gate.list_in(*set_, door->tag); !status.ok()) return status;
  return doors_.emplace(member.bind_address, std::move(door)).first->second.get();
}

Result<Connector::Seat*> Connector::enter(const transport::Member& member) {
  const MutexLock lock(mutex_);
  const Result<ListeningDoor*> door = open_door(member);
  if (!door.ok()) return door.status();
  ++door.value()->seats;
  Seat& seat = seats_.emplace_back();
  seat.member = &member;
  seat.door = door.value();
  seat.card = {door.value()->place, member.host_id};
  seat.peers.resize(static_cast<size_t>(member.ranks));
  const MutexLock expected_lock(expected_mutex_);
  expected_.emplace(member.communicator, member.epoch);
  return &seat;
}

void Connector::be_quiet(Seat& seat) {
  const MutexLock lock(mutex_);
  if (std::exchange(seat.quiet, true)) return;
  {
    const MutexLock expected_lock(expected_mutex_);
    const auto found = expected_.find({seat.member->communicator, seat.member->epoch});
    if (found != expected_.end()) expected_.erase(found);
  }
  for (KnownPeer& peer : seat.peers) {
    peer.early = {};
    if (peer.link == nullptr) continue;
    peer.link->be_quiet();
    const std::shared_ptr<Connection>& connection = peer.link->connection();
    const auto call = calls_.find(connection.get());
    if (call == calls_.end() || call->second.link != peer.link) continue;
    drop(*connection);
    call_for_others(connection);
  }
  for (const auto& [ends, weak] : connections_) {
    const std::shared_ptr<Connection> connection = weak.lock();
    if (connection == nullptr || ends.first != id_of(*seat.member, seat.member->rank)) continue;
    connection->decline_kept(seat.member->communicator, seat.member->epoch);
  }
}

void Connector::leave(Seat& seat) {
  be_quiet(seat);
  const MutexLock lock(mutex_);
  ListeningDoor* const door = seat.door;
  if (--door->seats == 0) {
    std::erase_if(doors_, [&](const auto& entry) { return entry.second.get() == door; });
  }
  seats_.remove_if([&](const Seat& other) { return &other == &seat; });
  std::erase_if(connections_, [](const auto& entry) { return entry.second.expired(); });
}

// A call that fits no rank here is answered by the communicator's rank in another epoch, or else by
// the only rank that there is: its hello shows the caller how the two differ.
std::optional<transport::door::Lock> Connector::lock_for(
    const transport::door::Identity& caller) const {
  const Seat* found = seats_.size() == 1 ? &seats_.front() : nullptr;
  bool is_exact = false;
  for (const Seat& seat : seats_) {
    const transport::Member& member = *seat.member;
    if (member.communicator != caller.communicator || member.rank != caller.peer) continue;
    if (is_exact) break;
    is_exact = member.epoch == caller.epoch;
    found = &seat;
  }
  if (found == nullptr || found->quiet) return std::nullopt;
  return transport::door::Lock{found->member->key, identity_of(*found->member, -1)};
}

std::shared_ptr<Connection> Connector::connection_of(const transport::Member& member, int peer) {
  const Ends ends{id_of(member, member.rank), id_of(member, peer)};
  std::weak_ptr<Connection>& known = connections_[ends];
  if (std::shared_ptr<Connection> found = known.lock()) return found;
  auto made = std::make_shared<Connection>(ends.first, ends.second, this);
  known = made;
  return made;
}

std::unique_ptr<TcpLink> Connector::add(Seat& seat, int peer, const TcpCard& card) {
  const transport::Member& member = *seat.member;
  const MutexLock lock(mutex_);
  auto link =
      std::make_unique<TcpLink>(TcpLink::Party{member.rank, peer, card.endpoint.text(),
                                               member.communicator, member.epoch, member.key},
                                connection_of(member, peer));
  places_[link.get()] = &seat;
  KnownPeer& entry = seat.peers[static_cast<size_t>(peer)];
  entry.link = link.get();
  entry.card = card;
  if (!entry.early.valid()) return link;
  if (answer(*link, std::move(entry.early), entry.binding)) connected(*link->connection());
  arm_timer(monotonic_ns());
  return link;
}

void Connector::forget(TcpLink& link) {
  const MutexLock lock(mutex_);
  const auto found = places_.find(&link);
  if (found == places_.end()) return;
  KnownPeer& peer = known(link);
  if (peer.link == &link) peer.link = nullptr;
  places_.erase(found);
  const auto call = calls_.find(link.connection().get());
  if (call == calls_.end() || call->second.link != &link) return;
  drop(*link.connection());
  call_for_others(link.connection());
}

Connector::KnownPeer& Connector::known(const TcpLink& link) {
  return places_.at(&link)->peers[static_cast<size_t>(link.peer_rank())];
}

bool Connector::expects(uint64_t communicator, uint32_t epoch) {
  const MutexLock lock(expected_mutex_);
  return expected_.contains({communicator, epoch});
}

Status Connector::overdue(const TcpLink& link) {
  const MutexLock lock(mutex_);
  std::string text = "no answer in time";
  const transport::door::Gate& gate = places_.at(&link)->door->gate;
  if (gate.refused() > 0) {
    text += " (refused " + std::to_string(gate.refused()) +
            " other connections; the last one: " + gate.last_refusal() + ")";
  }
  return explain(Status::timeout(text), link);
}

}  // namespace tutti::transports::tcp
