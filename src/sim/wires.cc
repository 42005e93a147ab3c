#include "src/sim/wires.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "src/base/prng.h"

namespace tutti::sim {

namespace {

// Of a link that bounds nothing as long as it lives.
constexpr double kBoundless = 1e12;

// How many of the flows of all ranks of an actor cross one link of a class, if each crosses it
// `each` times: the flows are spread evenly over the links of a class.
uint32_t per_link(uint32_t size, uint32_t each, uint32_t links) {
  return static_cast<uint32_t>(uint64_t{size} * each / links);
}

}  // namespace

Wires::Wires(const Cast& cast, const Network& network, const Costs& costs, Agenda& agenda,
             std::span<const double> core_bytes_per_ns)
    : cast_(cast),
      network_(network),
      costs_(costs),
      agenda_(agenda),
      copies_(cast.actors.size()),
      carried_(cast.any_link.size(), 0.0) {
  add_links();
  add_copies(core_bytes_per_ns);
  add_planners();
}

void Wires::add_links() {
  for (uint32_t i = 0; i < cast_.any_link.size(); ++i) {
    const NetworkLink& link = network_.link(cast_.any_link[i]);
    const bool is_bounded = link.bytes_per_ns > 0 || link.dead_from != kNever;
    link_of_.push_back(is_bounded
                           ? fluid_.add_link(link.bytes_per_ns > 0 ? link.bytes_per_ns : kBoundless)
                           : kNone);
    agenda_.note(link.dead_from, HappeningKind::kLinkDies, i);
  }
}

// Where the cores of all ranks of a host together copy no more than its medium carries, it bounds
// nothing.
void Wires::add_copies(std::span<const double> core_bytes_per_ns) {
  std::vector<double> wanted(cast_.any_link.size(), 0.0);
  const auto medium_of = [&](const Player& actor) {
    const uint32_t medium = network_.medium_of(actor.rank);
    return medium == Network::kNone ? kNone : cast_.class_of[medium];
  };
  for (size_t i = 0; i < cast_.actors.size(); ++i) {
    const Player& actor = cast_.actors[i];
    const uint32_t medium = medium_of(actor);
    if (medium == kNone) return;
    wanted[medium] += per_link(actor.size, 1, cast_.class_size[medium]) * core_bytes_per_ns[i];
  }
  for (size_t i = 0; i < cast_.actors.size(); ++i) {
    const Player& actor = cast_.actors[i];
    const uint32_t medium = medium_of(actor);
    const uint32_t link = link_of_[medium];
    if (link == kNone || wanted[medium] <= fluid_.capacity(link)) continue;
    copies_[i].path = {{fluid_.add_link(core_bytes_per_ns[i])},
                       {link, per_link(actor.size, 1, cast_.class_size[medium])}};
  }
}

uint32_t Wires::connection(uint32_t actor, uint32_t rank) {
  const auto next = static_cast<uint32_t>(connections_.size());
  const auto [found, is_new] = numbers_.try_emplace({actor, rank}, next);
  if (!is_new) return found->second;
  WireConnection& made = connections_.emplace_back();
  made.from = actor;
  add_path(made, cast_.actors[actor].rank, static_cast<int>(rank));
  return next;
}

// A connection's bytes are not known when it is made, so sources are spread and not connections.
void Wires::add_planners() {
  if (network_.paths() == 1 || network_.path_rule() != PathRule::kPlanned) return;
  for (size_t level = 0; level < network_.levels(); ++level) {
    std::vector<uint32_t> ranks(network_.group()->nodes(level), 0);
    for (int rank = 0; rank < network_.ranks(); ++rank) ++ranks[network_.node_of(level, rank)];
    planners_.emplace_back(std::move(ranks), network_.paths());
  }
}

uint32_t Wires::pick_path(size_t level, uint32_t from, int source, int target) {
  if (!planners_.empty())
    return planners_[level - 1].path_of(static_cast<uint32_t>(source), from,
                                        static_cast<uint32_t>(target));
  uint64_t state = (uint64_t{level} << 56) ^ (static_cast<uint64_t>(source) << 28) ^
                   static_cast<uint64_t>(target);
  return static_cast<uint32_t>(splitmix64(state) % network_.paths());
}

void Wires::add_path(WireConnection& connection, int source, int target) {
  std::map<uint32_t, uint32_t> times;  // by class
  double loss = 0;
  const auto add = [&](uint32_t link) {
    ++times[cast_.class_of[link]];
    loss = 1 - (1 - loss) * (1 - network_.link(link).loss);
  };
  PathPicker pick;
  if (network_.paths() > 1) {
    pick = [&](size_t level, uint32_t from, uint32_t /*to*/) {
      return pick_path(level, from, source, target);
    };
  }
  connection.level = static_cast<uint8_t>(network_.route(source, target, add, pick));
  const uint32_t size = cast_.actors[connection.from].size;
  for (const auto& [which, each] : times) {
    const LinkUse use{which, per_link(size, each, cast_.class_size[which])};
    connection.classes.push_back(use);
    if (link_of_[which] != kNone) connection.path.push_back({link_of_[which], use.times});
  }
  const double latency = network_.latency_ns(source, target) + costs_.stream_latency_ns;
  connection.latency = std::max<Time>(1, picoseconds(latency));
  double bound = costs_.stream_bytes_per_ns;
  if (loss > 0) {
    connection.resent = 1 / (1 - loss);
    const double segment = costs_.segment_bytes + costs_.segment_overhead_bytes;
    const double mathis = segment / (2 * latency) * std::sqrt(1.5 / loss);
    bound = bound > 0 ? std::min(bound, mathis) : mathis;
  }
  if (bound > 0) connection.path.push_back({fluid_.add_link(bound)});
}

Wires::WireLane& Wires::channel_of(WireConnection& connection, uint32_t lane) const {
  if (connection.channels.size() <= lane) connection.channels.resize(lane + 1);
  WireLane& channel = connection.channels[lane];
  while (!channel.grants.empty() &&
         channel.grants.front().post.time + connection.latency <= agenda_.now()) {
    channel.granted = channel.grants.front().end;
    channel.grants.pop_front();
  }
  return channel;
}

void Wires::send(uint32_t number, const Post& post) {
  WireConnection& connection = connections_[number];
  WireLane& channel = channel_of(connection, post.lane);
  uint32_t id;
  if (free_.empty()) {
    id = static_cast<uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  channel.sent += post.bytes;
  messages_[id] = {number, post, channel.sent, 0, {}, false};
  const KnownTime own{.before = post.hop, .by = post.actor, .begun = post.time};
  if (channel.sent <= channel.granted + costs_.eager_bytes) {
    return make_ready(id, post.time, own);
  }
  for (const Grant& grant : channel.grants) {
    if (channel.sent > grant.end + costs_.eager_bytes) continue;
    const Time known = grant.post.time + connection.latency;
    if (known <= post.time) return make_ready(id, post.time, own);
    return make_ready(id, known,
                      {.before = grant.post.hop, .by = grant.post.actor, .begun = grant.post.time});
  }
  channel.held.push_back(id);
}

void Wires::receive(uint32_t number, const Post& post) {
  WireConnection& connection = connections_[number];
  WireLane& channel = channel_of(connection, post.lane);
  channel.asked += post.bytes;
  channel.grants.push_back({channel.asked, post});
  channel.receives.push_back(post);
  while (!channel.held.empty()) {
    const WireMessage& message = messages_[channel.held.front()];
    if (message.end > channel.asked + costs_.eager_bytes) break;
    const Time known = post.time + connection.latency;
    const bool by_sender = message.sent.time >= known;
    const Post& cause = by_sender ? message.sent : post;
    make_ready(channel.held.front(), std::max(known, message.sent.time),
               {.before = cause.hop, .by = cause.actor, .begun = cause.time});
    channel.held.pop_front();
  }
  meet(channel);
}

void Wires::make_ready(uint32_t id, Time time, const KnownTime& cause) {
  messages_[id].ready = time;
  messages_[id].cause = cause;
  agenda_.note(time, HappeningKind::kReady, id);
}

void Wires::copy(uint32_t actor, double bytes, Time from) {
  copies_[actor].bytes = bytes;
  agenda_.note(from, HappeningKind::kCopy, actor);
}

uint32_t Wires::start_flow(std::span<const LinkUse> path, double bytes, uint32_t owner) {
  const uint32_t flow = fluid_.add(path, bytes, agenda_.now());
  if (owner_.size() <= flow) owner_.resize(flow + 1, kNone);
  owner_[flow] = owner;
  return flow;
}

void Wires::handle(const Happening& event) {
  switch (event.kind) {
    case HappeningKind::kReady:
      connections_[messages_[event.which].connection].ready.push_back(event.which);
      touch(messages_[event.which].connection);
      break;
    case HappeningKind::kDue:
      if (fluid_.version(event.which) == event.version) due(event.which);
      break;
    case HappeningKind::kCopy:
      start_flow(copies_[event.which].path, copies_[event.which].bytes, kCopyBit | event.which);
      break;
    case HappeningKind::kLinkDies:
      fluid_.set_capacity(link_of_[event.which], 0);
      break;
    case HappeningKind::kWake:
      break;
  }
}

void Wires::settle() {
  while (!touched_.empty()) {
    const uint32_t connection = touched_.back();
    touched_.pop_back();
    connections_[connection].touched = false;
    if (connections_[connection].message == kNone) begin(connection);
  }
  for (const Fluid::Due& due : fluid_.settle(agenda_.now())) {
    agenda_.note(due.time, HappeningKind::kDue, due.flow, due.version);
  }
}

void Wires::touch(uint32_t connection) {
  if (connections_[connection].touched) return;
  connections_[connection].touched = true;
  touched_.push_back(connection);
}

// Of messages that are ready, the one that has been so for longest goes first.
void Wires::begin(uint32_t number) {
  WireConnection& connection = connections_[number];
  std::vector<uint32_t>& ready = connection.ready;
  if (ready.empty()) return;
  const auto order = [&](uint32_t id) {
    const WireMessage& message = messages_[id];
    return std::tuple(message.ready, message.sent.lane, message.end, message.sent.ordinal);
  };
  const auto first = std::min_element(ready.begin(), ready.end(),
                                      [&](uint32_t a, uint32_t b) { return order(a) < order(b); });
  connection.message = *first;
  ready.erase(first);
  WireMessage& message = messages_[connection.message];
  const double bytes = bytes_on_wire(connection, message);
  connection.flow = start_flow(connection.path, bytes, number);
  message.told = bytes <= costs_.socket_bytes;
  if (message.told) {
    tell_sent(message);
  } else {
    fluid_.set_stop(connection.flow, costs_.socket_bytes);
  }
}

void Wires::tell_sent(const WireMessage& message) {
  const Post& post = message.sent;
  const Time now = agenda_.now();
  sent_(post, {.time = now, .before = post.hop, .by = post.actor, .begun = post.time, .out = now});
}

void Wires::due(uint32_t flow) {
  const uint32_t owner = owner_[flow];
  if ((owner & kCopyBit) != 0) {
    fluid_.remove(flow);
    copied_(owner & ~kCopyBit);
    return;
  }
  WireMessage& message = messages_[connections_[owner].message];
  if (message.told) return leave(owner);
  message.told = true;
  fluid_.set_stop(flow, 0);
  tell_sent(message);
}

void Wires::leave(uint32_t number) {
  WireConnection& connection = connections_[number];
  const uint32_t id = connection.message;
  KnownTime known = messages_[id].cause;
  known.out = agenda_.now();
  known.time = later(agenda_.now(), connection.latency);
  fluid_.remove(connection.flow);
  connection.message = kNone;
  const double bytes = bytes_on_wire(connection, messages_[id]);
  for (const LinkUse& use : connection.classes) carried_[use.link] += bytes * use.times;
  WireLane& channel = channel_of(connection, messages_[id].sent.lane);
  channel.arrived.push_back(known);
  free_.push_back(id);
  touch(number);
  meet(channel);
}

void Wires::meet(WireLane& channel) {
  while (!channel.arrived.empty() && !channel.receives.empty()) {
    const Post post = channel.receives.front();
    KnownTime known = channel.arrived.front();
    channel.receives.pop_front();
    channel.arrived.pop_front();
    known.time = std::max(known.time, post.time);
    arrived_(post, known);
  }
}

}  // namespace tutti::sim
