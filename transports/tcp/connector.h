// Makes the connections of a rank's links when they are wanted: lets in those who call, calls the
// others, and asks the link what becomes of each call (link.h has the rules).
//
// One thread serves it, all sockets in one poll set. It never waits: a peer that is stopped holds a
// handshake for as long as it likes and delays nobody. At most kMostCalls are out at a time; one
// that a peer does not answer makes room for others after a while, until the peer has this rank's
// proof: then it may believe that it is connected. One that a peer's host does not answer stays
// out, beyond that number, until the kernel gives it up. The higher of two ranks gives way for a
// moment, since a call of the lower one wins, and mostly both want the connection at once.
//
// A host that is gone without a word, or cut off, ends no connection, and no call that waits for an
// answer: the kernel asks it while nothing waits to be sent, and this looks every now and then at
// what it acknowledges.
//
//   wanted -> queued -> calling -> asking -> connected, or the link failed
//               ^          |         |
//               +----------+---------+-- cut off; declined, and the declined call has ended
//
// Owns: the listener, and connections that have not become a link's. Threads: any; serve() is for
// one at a time. Locks, in this order: mutex_, a link's, wishes_mutex_. Errors: what cannot be
// connected fails its link, with an error that names both ranks and the address. Lifetime: links
// end before it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/base/fork.h"
#include "src/base/poll_set.h"
#include "src/base/status.h"
#include "src/transport/door/call.h"
#include "src/transport/door/gate.h"
#include "src/transport/member.h"
#include "transports/tcp/card.h"
#include "transports/tcp/link.h"

namespace tutti::transports::tcp {

class Connector final : public transport::door::Dialer {
 public:
  static constexpr size_t kMostCalls = transport::door::Gate::kMaxHalfOpen;
  static constexpr uint64_t kGiveWayNs = 2'000'000;

  /// `member` outlives it; `self` is where the listener listens.
  static Result<std::unique_ptr<Connector>> create(const transport::Member& member,
                                                   const TcpCard& self, KeptFd listener,
                                                   uint64_t give_way_ns = kGiveWayNs);

  /// Readable when serve() has something to do.
  int fd() const { return set_->fd(); }
  void serve();

  /// A new link of this rank. The peer may have called it already.
  void add(TcpLink& link, int peer, const TcpCard& card);

  void want(int peer) override;
  void forget(int peer) override;
  Status overdue(int peer) override;

 private:
  enum class CallStage : uint8_t { kQueued, kCalling, kAsking, kDeclined };
  struct Outgoing {
    CallStage stage = CallStage::kQueued;
    uint64_t due_ns = 0;  // queued: not before; calling: makes room from then on
    uint64_t pause_ns = transport::door::Attempts::kPauseNs;
    transport::door::Attempts attempts;
    int without_socket = 0;  // how often there was no descriptor for it
    std::optional<transport::door::OutgoingCall> call;
    PolledFd socket;  // from kAsking on
  };
  struct KnownPeer {
    TcpLink* link = nullptr;
    TcpCard card;
    KeptFd early;  // called before there was a link, and waits
  };

  Connector(const transport::Member& member, const TcpCard& self, KeptFd listener, KeptFd timer,
            std::unique_ptr<PollSet> set);

  // All below: under mutex_.
  void take_wishes();
  void let_in(uint64_t now_ns);
  void answer(int caller, KeptFd call);
  void begin_calls(uint64_t now_ns);
  void make_room(uint64_t now_ns);
  void queue(int peer, Outgoing& outgoing, uint64_t due_ns);
  void begin(int peer, Outgoing& outgoing, uint64_t now_ns);
  void step(int peer, Outgoing& outgoing);
  void advance_call(int peer, Outgoing& outgoing);
  void read_verdict(int peer, Outgoing& outgoing);
  void call_again(int peer, Outgoing& outgoing);
  void make_ready(int socket);
  bool may_be_out(int peer) const;
  void look_after_hosts(uint64_t now_ns);
  static int reached_by(const Outgoing& outgoing);
  void drop(int peer);
  void connected(int peer);
  /// kHere: not even a call was made, so it says nothing about the peer.
  enum class FaultSide { kThere, kHere };
  void fail(int peer, const Status& reason, FaultSide fault = FaultSide::kThere);
  void arm_timer(uint64_t now_ns);
  void set_timer(uint64_t when_ns);
  Status explain(const Status& reason, int peer) const;

  const transport::Member& member_;
  const TcpCard self_;
  uint64_t give_way_ns_ = kGiveWayNs;
  const KeptFd timer_;  // rings for wishes, too
  const std::unique_ptr<PollSet> set_;

  std::mutex wishes_mutex_;
  std::vector<int> wishes_;

  mutable std::mutex mutex_;
  transport::door::Gate gate_;
  uint64_t gate_rests_until_ns_ = 0;  // 0: it does not
  uint64_t next_look_ns_ = kNoDeadline;
  std::vector<KnownPeer> peers_;  // by rank
  std::map<int, Outgoing> calls_;
  std::set<std::pair<uint64_t, int>> queue_;  // kQueued: (due_ns, peer)
  std::set<int> calling_;                     // kCalling, but for those that made room
};

}  // namespace tutti::transports::tcp
