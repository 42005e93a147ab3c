// Makes the connections between members when they are wanted: accepts calls, makes calls, and asks
// the connection what becomes of each of them (connection.h has the rules).
//
// A process has one. Each rank of a communicator registers here (Seat), so that callers find it at
// the listener of its address (ListeningDoor); ranks with one address share a listener. A caller
// names a communicator, and proves that it holds its key.
//
// One thread serves it, all sockets in one poll set. It never waits: a peer that is stopped holds a
// handshake for as long as it likes and delays nobody. At most kMostCalls are out at a time; one
// that a peer does not answer makes room for others after a while, until the peer has this rank's
// proof: then it may believe that it is connected. A call that the peer's host does not answer
// stays out, beyond that number, until the kernel gives it up. The member with the greater id waits
// for a moment before it calls, since the lesser one's call wins, and mostly both want the
// connection at the same time.
//
// A host that has lost its power or its network ends no connection, and no call that waits for an
// answer. So the kernel asks it while nothing waits to be sent, and the connector looks every now
// and then at what the host has acknowledged.
//
//   wanted -> queued -> calling -> asking -> connected, or the link failed
//               ^          |         |
//               +----------+---------+-- cut off; declined, and the declined call has ended
//
// Owns: the listeners, and sockets that have not become a connection's. Threads: any; serve() is
// for one at a time. Locks, in this order: mutex_, a connection's, wishes_mutex_ and
// expected_mutex_. Errors: what cannot be connected fails its link, with an error that names both
// ranks and the address. Lifetime: links end before their seats, and these before it.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/fork.h"
#include "src/base/mutex.h"
#include "src/base/poll_set.h"
#include "src/base/status.h"
#include "src/transport/door/call.h"
#include "src/transport/door/gate.h"
#include "src/transport/endpoint.h"
#include "src/transport/member.h"
#include "transports/tcp/card.h"
#include "transports/tcp/connection.h"
#include "transports/tcp/link.h"

namespace tutti::transports::tcp {

class Connector final : public Dialer, public transport::Endpoint::EndpointPart {
 public:
  static constexpr size_t kMostCalls = transport::door::Gate::kMaxHalfOpen;
  static constexpr uint64_t kGiveWayNs = 2'000'000;

  static Result<std::unique_ptr<Connector>> create(uint64_t keepalive_ns,
                                                   uint64_t give_way_ns = kGiveWayNs);

  /// Readable when serve() has something to do.
  int service_fd() const override { return set_->fd(); }
  void serve() override;

  /// The registration of a rank of a communicator, until leave().
  struct Seat;
  /// Listens at the member's address, if this process does not yet. `member` outlives the seat.
  Result<Seat*> enter(const transport::Member& member);
  static const TcpCard& card_of(const Seat& seat);
  /// From now on none of its links is joined, and no function of on_settled() runs.
  void be_quiet(Seat& seat);
  void leave(Seat& seat);

  /// A new link of the rank. The peer may have called it already.
  std::unique_ptr<TcpLink> add(Seat& seat, int peer, const TcpCard& card);

  void look_at(Connection& connection) override;
  void forget(TcpLink& link) override;
  Status overdue(const TcpLink& link) override;
  bool expects(uint64_t communicator, uint32_t epoch) override;

 private:
  struct ListeningDoor {
    ListeningDoor(const IpEndpoint& at, KeptFd listener, transport::door::Locks locks)
        : place(at), gate(std::move(listener), std::move(locks)) {}
    const IpEndpoint place;
    transport::door::Gate gate;
    uint64_t tag = 0;
    uint64_t rests_until_ns = 0;  // 0: it listens
    int seats = 0;
  };
  enum class CallStage : uint8_t { kQueued, kCalling, kAsking, kDeclined };
  struct Outgoing {
    std::shared_ptr<Connection> connection;
    TcpLink* link = nullptr;  // the call is made for this link; null: not decided
    CallStage stage = CallStage::kQueued;
    uint64_t due_ns = 0;  // queued: the call is made then; calling: it may make room then
    uint64_t pause_ns = transport::door::Attempts::kPauseNs;
    transport::door::Attempts attempts;
    int without_socket = 0;  // how often there was no descriptor for it
    std::optional<transport::door::OutgoingCall> call;
    PolledFd socket;  // from kAsking on
    transport::door::Binding binding{};
  };
  struct KnownPeer {
    TcpLink* link = nullptr;
    TcpCard card;
    KeptFd early;  // a call that came before there was a link, and waits
    transport::door::Binding binding{};
  };
  using Ends = std::pair<MemberId, MemberId>;  // this one, the peer

  Connector(KeptFd timer, std::unique_ptr<PollSet> set, uint64_t keepalive_ns,
            uint64_t give_way_ns);

  Result<ListeningDoor*> open_door(const transport::Member& member) TUTTI_REQUIRES(mutex_);
  std::optional<transport::door::Lock> lock_for(const transport::door::Identity& caller) const
      TUTTI_REQUIRES(mutex_);
  static transport::door::Identity identity_of(const transport::Member& member, int peer);
  std::shared_ptr<Connection> connection_of(const transport::Member& member, int peer)
      TUTTI_REQUIRES(mutex_);
  KnownPeer& known(const TcpLink& link) TUTTI_REQUIRES(mutex_);
  void take_wishes() TUTTI_REQUIRES(mutex_);
  void let_in(ListeningDoor& door, uint64_t now_ns) TUTTI_REQUIRES(mutex_);
  void answer(transport::door::Gate::AdmittedCaller caller) TUTTI_REQUIRES(mutex_);
  bool answer(TcpLink& link, KeptFd call, const transport::door::Binding& binding)
      TUTTI_REQUIRES(mutex_);
  void begin_calls(uint64_t now_ns) TUTTI_REQUIRES(mutex_);
  void make_room(uint64_t now_ns) TUTTI_REQUIRES(mutex_);
  void queue(Outgoing& outgoing, uint64_t due_ns) TUTTI_REQUIRES(mutex_);
  void begin(Outgoing& outgoing, uint64_t now_ns) TUTTI_REQUIRES(mutex_);
  void step(Outgoing& outgoing) TUTTI_REQUIRES(mutex_);
  void advance_call(Outgoing& outgoing) TUTTI_REQUIRES(mutex_);
  void read_verdict(Outgoing& outgoing) TUTTI_REQUIRES(mutex_);
  void call_again(Outgoing& outgoing) TUTTI_REQUIRES(mutex_);
  void make_ready(int socket) TUTTI_REQUIRES(mutex_);
  bool may_be_out(const Connection& connection) const TUTTI_REQUIRES(mutex_);
  void look_after_hosts(uint64_t now_ns) TUTTI_REQUIRES(mutex_);
  static int reached_by(const Outgoing& outgoing);
  void drop(const Connection& connection) TUTTI_REQUIRES(mutex_);
  void connected(Connection& connection) TUTTI_REQUIRES(mutex_);
  void call_for_others(const std::shared_ptr<Connection>& connection) TUTTI_REQUIRES(mutex_);
  /// kHere: not even a call was made, so it says nothing about the peer.
  enum class FaultSide { kThere, kHere };
  void fail(Outgoing& outgoing, const Status& reason, FaultSide fault = FaultSide::kThere)
      TUTTI_REQUIRES(mutex_);
  void arm_timer(uint64_t now_ns) TUTTI_REQUIRES(mutex_);
  void set_timer(uint64_t when_ns);
  Status explain(const Status& reason, const TcpLink& link) const TUTTI_REQUIRES(mutex_);

  const uint64_t keepalive_ns_;
  const uint64_t give_way_ns_;
  const KeptFd timer_;  // rings for wishes, too
  const std::unique_ptr<PollSet> set_;

  Mutex wishes_mutex_;
  std::vector<std::weak_ptr<Connection>> wishes_ TUTTI_GUARDED_BY(wishes_mutex_);

  Mutex expected_mutex_;
  std::multiset<std::pair<uint64_t, uint32_t>> expected_
      TUTTI_GUARDED_BY(expected_mutex_);  // communicator and epoch of seats

  mutable Mutex mutex_;
  uint64_t next_look_ns_ TUTTI_GUARDED_BY(mutex_) = kNoDeadline;
  uint64_t last_door_ TUTTI_GUARDED_BY(mutex_) = 0;  // tag of the poll set
  std::map<std::string, std::unique_ptr<ListeningDoor>> doors_
      TUTTI_GUARDED_BY(mutex_);  // by address
  std::list<Seat> seats_ TUTTI_GUARDED_BY(mutex_);
  std::map<const TcpLink*, Seat*> places_ TUTTI_GUARDED_BY(mutex_);
  std::map<Ends, std::weak_ptr<Connection>> connections_ TUTTI_GUARDED_BY(mutex_);
  std::map<const Connection*, Outgoing> calls_ TUTTI_GUARDED_BY(mutex_);
  std::set<std::pair<uint64_t, const Connection*>> queue_
      TUTTI_GUARDED_BY(mutex_);  // kQueued: (due_ns, of)
  std::set<const Connection*> calling_
      TUTTI_GUARDED_BY(mutex_);  // kCalling, but for those that made room
};

struct Connector::Seat {
  const transport::Member* member = nullptr;
  ListeningDoor* door = nullptr;
  TcpCard card;
  bool quiet = false;
  std::vector<KnownPeer> peers;  // by rank
};

inline const TcpCard& Connector::card_of(const Seat& seat) { return seat.card; }

}  // namespace tutti::transports::tcp
