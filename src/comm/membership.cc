#include "src/comm/membership.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "src/base/clock.h"
#include "src/base/host_name.h"
#include "src/base/setting_values.h"
#include "src/base/wait.h"
#include "src/base/words.h"
#include "src/bootstrap/address.h"
#include "src/comm/card.h"
#include "src/comm/joining.h"
#include "src/diagnosis/loss.h"
#include "src/group/members.h"
#include "src/topology/device_graph.h"
#include "src/topology/text_file.h"

namespace tutti::comm {
namespace {

// The texts of a card before those of the transports.
enum CardText : size_t {
  kHost,
  kProcess,
  kMember,
  kProcessors,
  kSettings,
  kNamedHost,
  kLevelSources,
  kPlace,
  kHostId,
  kDevice,
  kModel,
  kCodecTimes,
  kFirstTransport
};

bool is_allowed(const Config& config, const transport::Factory& factory) {
  const auto& allowed = config.transports;
  if (allowed.empty()) return !factory.only_if_named;
  return std::find(allowed.begin(), allowed.end(), factory.name) != allowed.end();
}

/// As descriptions of networks know it.
std::string named_host(const Config& config) {
  return config.host_id.empty() ? host_name() : config.host_id;
}

constexpr const char* kWithoutMemory = ", and NCCL_SHM_DISABLE none that shares memory";

}  // namespace

Membership::Membership(MembershipOptions options)
    : options_(std::move(options)), self_(options_.self) {
  const auto ranks = static_cast<size_t>(self_.ranks);
  links_.resize(ranks);
  profiles_.resize(ranks);
}

// Sizes and numbers that follow from the environment must be equal, or ranks would compute
// different positions.
std::string Membership::settings() const {
  const Config& config = *options_.env->config;
  return "TUTTI_INLINE_BYTES=" + std::to_string(config.inline_bytes) +
         " TUTTI_FRAME_BYTES=" + std::to_string(config.frame_bytes) +
         " TUTTI_RING_BYTES=" + std::to_string(config.ring_bytes) +
         " TUTTI_DEVICE_RING_BYTES=" + std::to_string(config.device_ring_bytes) +
         " TUTTI_MAILBOX_BYTES=" + std::to_string(config.mailbox_bytes) +
         " TUTTI_MULTICAST=" + std::to_string(static_cast<int>(config.multicast)) +
         " TUTTI_ENGINE=" + std::string(engine_name(options_.engine)) +
         " TUTTI_WIRE=" + options_.wire + " TUTTI_SINGLE_COPY_BYTES=" +
         (config.single_copy_bytes ? std::to_string(*config.single_copy_bytes) : "measured") +
         " TUTTI_MEASURE=" +
         (config.measures_at_start ? "start"
          : config.measures_host   ? "host"
                                   : "off") +
         " TUTTI_DETERMINISTIC=" + std::to_string(config.deterministic) +
         " TUTTI_CALLS_BEFORE=" + std::to_string(config.calls_before);
}

Status Membership::open_transports() {
  const Config& config = *options_.env->config;
  find_near_cards();
  for (const transport::Factory& factory : options_.transports) {
    if (!is_allowed(config, factory)) continue;
    Result<std::unique_ptr<transport::Transport>> made = factory.make(self_);
    if (!made.ok()) return made.status();
    if (!config.shared_memory && made.value()->maps_memory()) continue;
    transports_.push_back(std::move(made).value());
  }
  if (!transports_.empty() || self_.ranks == 1) return {};
  return Status::invalid_usage("TUTTI_TRANSPORTS allows no transport this library has" +
                               std::string(config.shared_memory ? "" : kWithoutMemory));
}

// The transport of the level by which the two talk, so that a link costs what its level says. The
// size of `transports_` if there is none.
size_t Membership::way_to(int peer) const {
  const std::string& name = group_->transport(rank(), peer);
  size_t way = 0;
  while (way < transports_.size() && transports_[way]->name() != name) ++way;
  return way;
}

uint64_t Membership::link_descriptors() const {
  uint64_t descriptors = 0;
  for (int peer = 0; peer < ranks(); ++peer) {
    const size_t way = peer == rank() ? transports_.size() : way_to(peer);
    if (way < transports_.size()) descriptors += transports_[way]->descriptors_per_link();
  }
  return descriptors;
}

// Each would hold a port or a name of the host for as long as the communicator lives.
void Membership::close_unused_transports() {
  std::vector<bool> used(transports_.size() + 1, false);
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    const size_t way = way_to(peer);
    used[way] = true;
    if (way == transports_.size()) unreached_[peer] = why_unreached(peer);
  }
  for (size_t way = transports_.size(); way-- > 0;) {
    if (used[way]) continue;
    const auto at = static_cast<std::ptrdiff_t>(way);
    transports_.erase(transports_.begin() + at);
    for (std::vector<std::string>& cards : cards_) cards.erase(cards.begin() + at);
  }
}

// The control thread makes the connections of links that have none yet.
Status Membership::serve_transports() {
  for (const auto& transport : transports_) {
    const int fd = transport->service_fd();
    if (fd < 0 || self_.ranks == 1 || options_.watch == nullptr) continue;
    const auto serve = [raw = transport.get()] {
      raw->serve();
      return uint64_t{0};
    };
    if (Status status = options_.watch->attend(fd, bootstrap::Watch::News::kInput, serve);
        !status.ok()) {
      return status;
    }
    served_.push_back(fd);
  }
  return {};
}

// Unreachable peers cost one patience, not one each.
Membership::~Membership() {
  stop_serving();
  for (const auto& link : links_) {
    if (link != nullptr) (void)link->linger();
  }
  tell_what_moved();
}

void Membership::stop_serving() {
  for (const auto& transport : transports_) transport->stop_serving();
  for (const int fd : served_) options_.watch->remove(fd);
  served_.clear();
}

// Where this rank listens for the others should they have to meet again.
Status Membership::open_roster() {
  roster_ = std::make_shared<Roster>();
  roster_->rank = self_.rank;
  roster_->key = self_.key;
  roster_->places.resize(static_cast<size_t>(self_.ranks));
  RankAddress& own = roster_->places[static_cast<size_t>(self_.rank)];
  if (options_.listener != nullptr) {
    const Roster& known = *options_.listener;
    const RankAddress& place = known.places[static_cast<size_t>(known.rank)];
    own.address = place.address;
    own.port = place.port;
    roster_->listener =
        KeptFd::open([&] { return fcntl(known.listener.get(), F_DUPFD_CLOEXEC, 0); });
    return roster_->listener.valid() ? Status() : errno_status("dup");
  }
  if (self_.ranks == 1) return {};
  Result<bootstrap::Address> address = bootstrap::Address::parse(self_.bind_address);
  if (!address.ok()) return address.status();
  Result<bootstrap::Listener> listener = bootstrap::listen_on(address.value(), 0);
  if (!listener.ok()) return listener.status();
  own.address = address.value();
  own.port = listener.value().port;
  roster_->listener = std::move(listener.value().fd);
  return {};
}

Status Membership::read_place(int rank, std::string_view text) {
  RankAddress& place = roster_->places[static_cast<size_t>(rank)];
  const Profile& profile = profiles_[static_cast<size_t>(rank)];
  place.host = profile.host;
  place.process = profile.process;
  if (self_.ranks == 1) return {};  // it knows its own place
  const std::vector<std::string_view> words = split(text, ' ');
  const auto address = bootstrap::Address::parse(std::string(words.front()));
  const auto port = parse_integer<uint16_t>(words.back());
  if (words.size() != 2 || !address.ok() || !port || *port == 0) {
    return Status::remote_error("rank " + std::to_string(rank) + " on " + profile.host +
                                " published a malformed address");
  }
  place.address = address.value();
  place.port = *port;
  return {};
}

std::string Membership::write_card() const {
  const RankAddress& place = roster_->places[static_cast<size_t>(self_.rank)];
  std::vector<std::string> texts = {
      host_name(),         std::to_string(getpid()),
      to_text(self_.id),   to_text(options_.processors),
      settings(),          named_host(*options_.env->config),
      write_level_cards(), place.address.text() + " " + std::to_string(place.port),
      self_.host_id,       options_.device,
      offers_.card(),      measure_codecs()};
  for (const auto& transport : transports_) texts.push_back(transport->card());
  return write_texts(texts);
}

Status Membership::read_cards(const std::vector<std::string>& cards) {
  for (size_t rank = 0; rank < cards.size(); ++rank) {
    Result<std::vector<std::string>> texts = read_texts(cards[rank]);
    if (!texts.ok()) return texts.status();
    std::vector<std::string>& card = texts.value();
    if (card.size() != kFirstTransport + transports_.size()) {
      return Status::invalid_usage(
          "rank " + std::to_string(rank) + " offers other transports than rank " +
          std::to_string(self_.rank) + ": TUTTI_TRANSPORTS must be the same on every rank");
    }
    Profile& profile = profiles_[rank];
    profile.host = card[kHost];
    std::from_chars(card[kProcess].data(), card[kProcess].data() + card[kProcess].size(),
                    profile.process);
    const auto member = read_member_id(card[kMember]);
    if (!member) {
      return Status::remote_error("rank " + std::to_string(rank) + " on " + profile.host +
                                  " published a malformed member id");
    }
    members_.push_back(*member);
    processors_.push_back(read_processors(card[kProcessors]).value_or(Processors()));
    if (card[kSettings] != settings()) {
      return Status::invalid_usage("rank " + std::to_string(rank) + " on " + profile.host +
                                   " has " + card[kSettings] + ", rank " +
                                   std::to_string(self_.rank) + " has " + settings() +
                                   ": set the same on every rank");
    }
    if (Status status = read_place(static_cast<int>(rank), card[kPlace]); !status.ok()) {
      return status;
    }
    roster_->places[rank].host_id = card[kHostId];
    named_hosts_.push_back(card[kNamedHost]);
    Status levels = read_level_cards(name_of(static_cast<int>(rank)), card[kLevelSources]);
    if (!levels.ok()) return levels;
    profile.device = card[kDevice];
    model_cards_.push_back(std::move(card[kModel]));
    codec_times_.push_back(codecs::read_measured(card[kCodecTimes]));
    card.erase(card.begin(), card.begin() + kFirstTransport);
    cards_.push_back(std::move(card));
  }
  members_ = group::number_members(members_);
  self_.id = members_[static_cast<size_t>(rank())];
  self_.members = members_;
  return {};
}

// It is for people: a communicator does not fail because of it.
void Membership::write_host_topology() const {
  const Config& config = *options_.env->config;
  if (config.host_topology_dump.empty()) return;
  const auto devices = topology::DeviceGraph::of_host(config);
  const Status status =
      devices.ok() ? topology::write_text_file(config.host_topology_dump, devices.value().write())
                   : devices.status();
  if (!status.ok()) {
    options_.env->log->warning("the devices of this host are not written to {} ({}): {}",
                               config.host_topology_dump,
                               origin_of(config, "TUTTI_HOST_TOPOLOGY_DUMP"), status.message());
  }
}

void Membership::count_cores() {
  std::vector<std::vector<Processors>> of_hosts(group_->hosts());
  for (int rank = 0; rank < ranks(); ++rank) {
    of_hosts[group_->host_of(rank)].push_back(std::move(processors_[static_cast<size_t>(rank)]));
  }
  std::vector<int> cores;
  for (const std::vector<Processors>& of_host : of_hosts) cores.push_back(count_together(of_host));
  cores_ = cores[group_->host_of(rank())];
  least_cores_ = *std::min_element(cores.begin(), cores.end());
  processors_ = {};
}

WaitLimit Membership::patience_with(int peer) const {
  constexpr uint64_t kSilenceNs = 60 * kNanosecondsPerSecond;
  constexpr uint64_t kFirstLookNs = 2 * kNanosecondsPerSecond, kNextLookNs = kNanosecondsPerSecond;
  const WaitLimit& wait_limit = options_.wait_limit;
  wait_limit.waits_for("rank " + std::to_string(self_.rank) + " connects with " + name_of(peer));
  if (!group_->near(rank(), peer)) return wait_limit.at_most(kSilenceNs);
  return wait_limit.at_most(kSilenceNs)
      .as_long_as([this, peer, next_ns = deadline_after(kFirstLookNs)]() mutable {
        options_.wait_limit.ask_if_due();
        if (options_.wait_limit.has_lost_purpose()) return options_.wait_limit.reason("");
        if (monotonic_ns() < next_ns) return Status();
        next_ns = deadline_after(kNextLookNs);
        return look_for(peer);
      });
}

// A rank that could not join has closed its listener. That says something only of a rank on this
// host: between hosts something else may refuse a connection.
Status Membership::look_for(int peer) const {
  constexpr uint64_t kDialNs = kNanosecondsPerSecond / 4;
  const RankAddress& place = roster_->places[static_cast<size_t>(peer)];
  const Status status =
      bootstrap::dial(place.address, place.port, deadline_after(kDialNs)).status();
  if (status.code() != Code::kRemoteError) return {};
  return Status::remote_error(name_of(peer) +
                              " gave up while ranks connected, or has ended; see there");
}

Status Membership::connect(int peer) {
  const auto index = static_cast<size_t>(peer);
  Profile& profile = profiles_[index];
  const size_t way = way_to(peer);
  if (way == transports_.size()) {
    return Status::system_error("no transport reaches rank " + std::to_string(peer) + " on " +
                                profile.host + "; see TUTTI_TRANSPORTS and TUTTI_HOST_ID" +
                                unreached_[peer]);
  }
  transport::Transport& transport = *transports_[way];
  Result<std::unique_ptr<transport::Link>> link =
      transport.connect(peer, cards_[index][way], patience_with(peer));
  if (!link.ok()) return link.status();
  profile.transport = transport.name();
  links_[index] = std::move(link).value();
  const transport::Capabilities& can = links_[index]->capabilities();
  has_streams_ = has_streams_ || !can.mapped;
  if (can.mapped != group_->near(rank(), peer)) {
    return Status::internal_error(std::string(transport.name()) + " reaches " + name_of(peer) +
                                  " in another way than its card says");
  }
  if (!can.mapped) return {};
  if (links_[index]->mapped()->arena().bytes != arena_.bytes()) {
    return Status::remote_error(name_of(peer) + " has an arena of another size than rank " +
                                std::to_string(rank()) +
                                ": run the same version of Tutti on all ranks");
  }
  ++domain_size_;
  all_memory_ = all_memory_ && can.all_memory;
  if (single_copy_ && !can.single_copy) {
    refused_by_ = rank();
    refused_with_ = peer;
  }
  single_copy_ = single_copy_ && can.single_copy;
  return {};
}

std::string Membership::why_no_single_copy() const {
  if (single_copy_) return "";
  return name_of(refused_by_) + " and " +
         (refused_with_ < 0 ? "one of its peers" : name_of(refused_with_)) +
         " may not read each other's memory (other users, containers, or the kernel's "
         "ptrace_scope), so no rank does";
}

std::string Membership::name_of(int rank) const { return roster_->describe(rank); }

// All at once: every rank calls and is called meanwhile.
Status Membership::connect_streams() {
  if (has_streams_ && options_.watch == nullptr) {
    return Status::internal_error("links to other hosts need a watch that serves their transport");
  }
  if (Status status = keep_connections(); !status.ok()) return status;
  if (options_.env->config->lazy_connect) return {};
  for (const auto& link : links_) {
    if (link != nullptr) link->want();
  }
  for (size_t peer = 0; peer < links_.size(); ++peer) {
    transport::Link* link = links_[peer].get();
    if (link == nullptr) continue;
    if (Status status = link->await(patience_with(static_cast<int>(peer))); !status.ok()) {
      return status;
    }
  }
  return {};
}

std::vector<exec::Peer> Membership::peers() const {
  std::vector<exec::Peer> peers(links_.size());
  for (size_t i = 0; i < links_.size(); ++i) {
    transport::Link* link = links_[i].get();
    if (static_cast<int>(i) == self_.rank) {
      peers[i].arena = exec::ArenaView(arena_.data(), options_.layout);
    } else if (link != nullptr) {
      peers[i].link = link;
      peers[i].mapped = link->mapped();
      peers[i].stream = link->stream();
      if (peers[i].mapped != nullptr) {
        peers[i].arena = exec::ArenaView(peers[i].mapped->arena().data, options_.layout);
      }
    }
  }
  return peers;
}

Result<std::unique_ptr<Membership>> Membership::create(MembershipOptions options) {
  std::unique_ptr<Membership> made(new Membership(std::move(options)));
  if (Status status = made->join(); !status.ok()) {
    made->give_up();
    const WaitLimit& wait_limit = made->options_.wait_limit;
    return wait_limit.cancelled() || wait_limit.has_lost_purpose() ? wait_limit.reason("") : status;
  }
  // These were for joining, and hold a descriptor.
  made->options_.exchange = nullptr;
  made->options_.make_room = nullptr;
  made->options_.wait_limit = kNoDeadline;
  made->options_.previous = nullptr;
  made->options_.listener = nullptr;
  return made;
}

Status Membership::join() {
  Result<transport::Arena> arena = transport::Arena::create("tutti-arena", options_.layout.bytes());
  if (!arena.ok()) return arena.status();
  arena_ = std::move(arena).value();
  self_.arena = &arena_;
  if (Status status = open_level_sources(); !status.ok()) return status;
  Result<ModelOffers> offers = ModelOffers::read(*options_.env->config);
  if (!offers.ok()) return offers.status();
  offers_ = std::move(offers).value();
  if (Status status = open_roster(); !status.ok()) return status;
  if (Status status = open_transports(); !status.ok()) return status;
  Result<std::vector<std::string>> cards = options_.exchange(write_card(), options_.wait_limit);
  if (!cards.ok()) return cards.status();
  if (Status status = read_cards(cards.value()); !status.ok()) return status;
  if (Status status = agree_on_model(); !status.ok()) return status;
  if (Status status = find_levels(); !status.ok()) return status;
  if (self_.rank == 0) write_host_topology();
  if (options_.make_room) options_.make_room(link_descriptors());
  close_unused_transports();
  if (Status status = serve_transports(); !status.ok()) return status;
  // Every rank meets its peers in rising order: the least pair that has not met is next for both.
  for (int peer = 0; peer < ranks(); ++peer) {
    if (peer == rank()) continue;
    if (Status status = connect(peer); !status.ok()) return status;
  }
  if (Status status = connect_streams(); !status.ok()) return status;
  return await_domain();
}

void Membership::give_up() const {
  if (arena_.data() == nullptr) return;
  const exec::ArenaView mine(arena_.data(), options_.layout);
  const diagnosis::Loss loss{self_.rank, {self_.rank, -1}};
  mine.counter(0).failed.store(loss.word(), std::memory_order_release);
}

// A rank that is done first may call, fail and leave at once. The others could not map its arena
// any more then, and those that had would wait for them.
Status Membership::await_domain() {
  const std::vector<exec::Peer> peers = this->peers();
  const exec::ArenaView& mine = peers[static_cast<size_t>(rank())].arena;
  // Nobody sees the links between two others.
  const exec::Joined own = single_copy_ ? exec::Joined::kAndCopies : exec::Joined::kYes;
  mine.counter(0).joined.store(own, std::memory_order_release);
  constexpr uint32_t kSpins = 100;
  Backoff backoff(kSpins);
  for (int peer = 0; peer < ranks(); ++peer) {
    const exec::Peer& other = peers[static_cast<size_t>(peer)];
    if (other.link == nullptr || !other.arena.valid()) continue;
    const exec::Counter& theirs = other.arena.counter(0);
    const WaitLimit& wait_limit = options_.wait_limit;
    wait_limit.waits_for(name_of(peer) + " has not joined yet");
    while (theirs.joined.load(std::memory_order_acquire) == exec::Joined::kNotYet) {
      Status absent = why_absent(other, [&] { return name_of(peer); });
      const bool has_come = theirs.joined.load(std::memory_order_acquire) != exec::Joined::kNotYet;
      if (!absent.ok() && !has_come) return absent;
      wait_limit.tell_if_due();
      wait_limit.ask_if_due();
      if (wait_limit.over()) {
        return wait_limit.reason(name_of(peer) + " has not joined the communicator in time");
      }
      backoff.pause();
    }
    const exec::Joined joined = theirs.joined.load(std::memory_order_acquire);
    if (single_copy_ && joined != exec::Joined::kAndCopies) refused_by_ = peer;
    single_copy_ = single_copy_ && joined == exec::Joined::kAndCopies;
  }
  return {};
}

}  // namespace tutti::comm
