// Messages between ranks that share no memory, as TCP carries them: one connection for each
// ordered pair, whose messages follow each other, and whose bytes share the links of its route with
// those of others.
//
// A message may go once the receives that were posted, and the eager quota, have room for it, which
// the sender hears a latency after they were. The sender may overwrite it once all but what the
// kernel's buffer holds is on the wire. It has arrived a latency after its last byte has left. A
// link that loses packets bounds a connection by sqrt(3/2) segments in each round trip and square
// root of the loss (Mathis et al., The macroscopic behavior of the TCP congestion avoidance
// algorithm, 1997), and what is lost is sent again.
//
// Threads: one. Errors: none; what can never arrive does not.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "src/paths/home_paths.h"
#include "src/sim/costs.h"
#include "src/sim/events.h"
#include "src/sim/fluid.h"
#include "src/sim/fold.h"
#include "src/sim/path.h"

namespace tutti::sim {

class Wires {
 public:
  /// One end of a message: what a lane has posted.
  struct Post {
    uint32_t actor = 0;
    uint32_t lane = 0;
    uint32_t ordinal = 0;
    double bytes = 0;
    Time time = 0;
    uint32_t hop = kNoHop;
  };
  /// At an end: of the receiver that the message is there, of the sender that it is out.
  using Tell = std::function<void(const Post& post, const KnownTime& known)>;

  /// All outlive it. `core_bytes_per_ns`: what the core of an actor copies.
  Wires(const Cast& cast, const Network& network, const Costs& costs, Agenda& agenda,
        std::span<const double> core_bytes_per_ns);
  void on_arrived(Tell tell) { arrived_ = std::move(tell); }
  void on_sent(Tell tell) { sent_ = std::move(tell); }
  /// A copy in the memory of a host has ended, of this actor.
  void on_copied(std::function<void(uint32_t)> tell) { copied_ = std::move(tell); }

  /// The connection of an actor to a rank; made at its first use.
  uint32_t connection(uint32_t actor, uint32_t rank);
  void send(uint32_t connection, const Post& post);
  void receive(uint32_t connection, const Post& post);

  /// Whether copies of an actor need the medium of its host: all of them together are more than it
  /// carries. Then copy() does them, `bytes` long, from the time of its event on.
  bool shares_medium(uint32_t actor) const { return !copies_[actor].path.empty(); }
  void copy(uint32_t actor, double bytes, Time from);

  void handle(const Happening& event);
  /// At the end of what happens at one time.
  void settle();

  /// Bytes over one link of each class.
  const std::vector<double>& carried() const { return carried_; }

 private:
  struct WireMessage {
    uint32_t connection = 0;
    Post sent;
    double end = 0;  // of its bytes in the channel
    Time ready = 0;
    KnownTime cause;    // of being ready
    bool told = false;  // the sender knows that it is out
  };
  struct Grant {
    double end = 0;  // of the bytes that were asked for
    Post post;
  };
  struct WireLane {
    double sent = 0, asked = 0, granted = 0;  // bytes; the last is known to the sender for sure
    std::deque<uint32_t> held;                // messages that wait for grants
    std::deque<Grant> grants;                 // that the sender may not know
    std::deque<Post> receives;                // that no message has met
    std::deque<KnownTime> arrived;            // that no receive has met
  };
  struct WireConnection {
    uint32_t from = 0;
    uint8_t level = 0;
    Time latency = 0;
    double resent = 1;               // bytes on the wire for each that arrives
    std::vector<LinkUse> classes;    // of links
    std::vector<LinkUse> path;       // of links of the fluid
    std::vector<WireLane> channels;  // by lane
    std::vector<uint32_t> ready;
    uint32_t message = kNone;  // that is on the wire
    uint32_t flow = 0;
    bool touched = false;
  };
  struct Copy {
    std::vector<LinkUse> path;
    double bytes = 0;
  };
  static constexpr uint32_t kNone = ~0u;
  static constexpr uint32_t kCopyBit = 0x80000000u;

  void add_links();
  void add_copies(std::span<const double> core_bytes_per_ns);
  void add_planners();
  void add_path(WireConnection& connection, int source, int target);
  uint32_t pick_path(size_t level, uint32_t from, int source, int target);
  WireLane& channel_of(WireConnection& connection, uint32_t lane) const;
  void make_ready(uint32_t message, Time time, const KnownTime& cause);
  double bytes_on_wire(const WireConnection& connection, const WireMessage& message) const {
    return costs_.wire_bytes(message.sent.bytes) * connection.resent;
  }
  void touch(uint32_t connection);
  void begin(uint32_t connection);
  void tell_sent(const WireMessage& message);
  void due(uint32_t flow);
  void leave(uint32_t connection);
  void meet(WireLane& channel);
  uint32_t start_flow(std::span<const LinkUse> path, double bytes, uint32_t owner);

  const Cast& cast_;
  const Network& network_;
  const Costs& costs_;
  Agenda& agenda_;
  Fluid fluid_{{}};
  // By level: which path each connection takes, where uplinks are several links.
  std::vector<paths::HomePaths> planners_;
  std::vector<uint32_t> link_of_;  // of the fluid, by class; kNone: nothing is bounded
  std::deque<WireConnection> connections_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;  // by actor and rank
  std::vector<WireMessage> messages_;
  std::vector<uint32_t> free_;
  std::vector<Copy> copies_;     // by actor
  std::vector<uint32_t> owner_;  // by flow: connection, or kCopyBit and actor
  std::vector<uint32_t> touched_;
  std::vector<double> carried_;
  Tell arrived_, sent_;
  std::function<void(uint32_t)> copied_;
};

}  // namespace tutti::sim
