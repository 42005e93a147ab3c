#include "transports/verbs/verbs.h"

#include <optional>
#include <string>
#include <utility>

#include "src/transport/door/meeting.h"
#include "src/transport/stream/message_link.h"
#include "transports/tcp/socket.h"
#include "transports/verbs/adapters.h"
#include "transports/verbs/card.h"
#include "transports/verbs/pipe.h"

namespace tutti::transports::verbs {
namespace {

using MadeLink = Result<std::unique_ptr<transport::Link>>;

class Verbs final : public transport::Transport {
 public:
  /// Of a rank that reaches nobody.
  explicit Verbs(const transport::Member& member, std::string absence) : member_(member) {
    card_.absence = std::move(absence);
  }
  Verbs(const transport::Member& member, std::shared_ptr<Adapters> adapters,
        std::shared_ptr<Domain> domain, KeptFd listener, const tcp::IpEndpoint& endpoint)
      : member_(member), adapters_(std::move(adapters)), domain_(std::move(domain)) {
    meeting_.emplace(std::move(listener), member, transport::door::purpose_of("verbs"));
    card_.endpoint = endpoint;
    card_.kind = gid_kind_name(domain_->adapter().gid_kind());
    card_.fabric = member.rdma.fabric;
    card_.host_id = member.host_id;
  }

  std::string_view name() const override { return "verbs"; }
  std::string card() const override { return card_.write(); }
  bool reaches(std::string_view peer_card) const override {
    const std::optional<VerbsCard> peer = VerbsCard::read(peer_card);
    return peer && card_.reaches(*peer);
  }
  std::string neighborhood(std::string_view card) const override {
    const std::optional<VerbsCard> read = VerbsCard::read(card);
    return read ? read->neighborhood() : std::string();
  }
  std::string absence(std::string_view card) const override {
    const std::optional<VerbsCard> read = VerbsCard::read(card);
    return read ? read->absence : std::string();
  }
  std::string_view level() const override { return "rdma"; }
  /// The socket, the channel of completions, and a set of both.
  size_t descriptors_per_link() const override { return 3; }

  MadeLink connect(int peer, std::string_view peer_card, const Patience& patience) override;

  Result<std::shared_ptr<const void>> announce(transport::Buffer memory) override {
    if (domain_ == nullptr) return std::shared_ptr<const void>();
    return ranges_->add(domain_, memory.data, memory.bytes);
  }

  int service_fd() const override {
    const bool is_served = member_.endpoint != nullptr || adapters_ == nullptr;
    return is_served ? -1 : adapters_->service_fd();
  }
  void serve() override { adapters_->serve(); }

 private:
  Status explain(const Status& reason, int peer, const VerbsCard& card) const;

  const transport::Member& member_;
  const std::shared_ptr<Adapters> adapters_;
  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<RegisteredRanges> ranges_ = std::make_shared<RegisteredRanges>();
  VerbsCard card_;
  std::optional<transport::door::LinkMeeting> meeting_;
};

MadeLink Verbs::connect(int peer, std::string_view peer_card, const Patience& patience) {
  const std::optional<VerbsCard> card = VerbsCard::read(peer_card);
  if (!card || !card_.reaches(*card) || peer == member_.rank) {
    return Status::invalid_argument("rank " + std::to_string(peer) + " is not reached by RDMA");
  }
  const auto dial = [&] { return tcp::dial(card->endpoint); };
  const auto introduce = [&](KeptFd socket, int rank) -> MadeLink {
    (void)tcp::make_fast(socket.get());
    auto pipe =
        VerbsPipe::open(domain_, ranges_, {std::move(socket), member_.keepalive_ns}, patience);
    if (!pipe.ok()) return pipe.status();
    return std::unique_ptr<transport::Link>(std::make_unique<transport::stream::MessageLink>(
        member_.rank, rank, "RDMA port " + domain_->adapter().port().text(),
        std::move(pipe).value()));
  };
  MadeLink link = meeting_->meet(peer, dial, introduce, patience);
  if (!link.ok()) return explain(link.status(), peer, *card);
  return link;
}

Status Verbs::explain(const Status& reason, int peer, const VerbsCard& card) const {
  const bool here = reason.code() == Code::kSystemError;
  std::string text = "rank " + std::to_string(member_.rank) + " has no RDMA connection with rank " +
                     std::to_string(peer) + " at " + card.endpoint.text() + " (host " +
                     card.host_id + "): " + std::string(reason.message());
  if (here || reason.code() == Code::kTimeout) {
    text +=
        "; check that its process runs and that its port is reached (docs/rdma.md), or leave "
        "verbs out of TUTTI_TRANSPORTS";
  }
  return {here ? Code::kRemoteError : reason.code(), text};
}

Result<std::unique_ptr<transport::Transport>> make_of(const transport::Member& member,
                                                      std::shared_ptr<Adapters> adapters) {
  Result<std::shared_ptr<Domain>> domain = adapters->domain_for(member);
  if (!domain.ok()) {
    return std::unique_ptr<transport::Transport>(
        std::make_unique<Verbs>(member, std::string(domain.status().message())));
  }
  const Result<tcp::IpEndpoint> wanted = tcp::parse_endpoint(member.bind_address, 0);
  if (!wanted.ok()) return wanted.status();
  Result<KeptFd> listener = tcp::listen_on(wanted.value());
  if (!listener.ok()) return listener.status();
  const Result<tcp::IpEndpoint> place = tcp::local_endpoint(listener.value().get());
  if (!place.ok()) return place.status();
  return std::unique_ptr<transport::Transport>(
      std::make_unique<Verbs>(member, std::move(adapters), std::move(domain).value(),
                              std::move(listener).value(), place.value()));
}

}  // namespace

Result<std::unique_ptr<transport::Transport>> make_with(const transport::Member& member,
                                                        const Equipment& equipment) {
  Result<std::unique_ptr<Adapters>> adapters = Adapters::create(equipment);
  if (!adapters.ok()) return adapters.status();
  return make_of(member, std::move(adapters).value());
}

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  // Most hosts have no card: then nothing is made at all.
  const Result<CardPort> port = choose_port(list_ports(), member.rdma, 0, -1);
  if (!port.ok()) {
    return std::unique_ptr<transport::Transport>(
        std::make_unique<Verbs>(member, std::string(port.status().message())));
  }
  if (member.endpoint == nullptr) return make_with(member, {});
  const auto make_one = []() -> Result<std::unique_ptr<transport::Endpoint::EndpointPart>> {
    auto made = Adapters::create({});
    if (!made.ok()) return made.status();
    return std::unique_ptr<transport::Endpoint::EndpointPart>(std::move(made).value());
  };
  auto part = member.endpoint->part("verbs", make_one);
  if (!part.ok()) return part.status();
  return make_of(member, std::static_pointer_cast<Adapters>(std::move(part).value()));
}

}  // namespace tutti::transports::verbs
