#include "transports/verbs/verbs.h"

#include <string>
#include <utility>

#include "transports/tcp/met_transport.h"
#include "transports/verbs/adapters.h"
#include "transports/verbs/pipe.h"

namespace tutti::transports::verbs {
namespace {

constexpr tcp::MetTransport::MetKind kKind{"verbs", "tutti-verbs-1", "RDMA"};

class Verbs final : public tcp::MetTransport {
 public:
  Verbs(const transport::Member& member, std::string absence)
      : MetTransport(member, kKind, std::move(absence)) {}
  Verbs(const transport::Member& member, std::shared_ptr<Adapters> adapters,
        std::shared_ptr<Domain> domain, MetDoor door)
      : MetTransport(member, kKind, std::move(door)),
        adapters_(std::move(adapters)),
        domain_(std::move(domain)) {}

  /// The socket, the channel of completions, and a set of both.
  size_t descriptors_per_link() const override { return 3; }

  Result<std::shared_ptr<const void>> announce(transport::Buffer memory) override {
    if (domain_ == nullptr) return std::shared_ptr<const void>();
    return register_range(*ranges_, domain_, memory.data, memory.bytes);
  }

  int service_fd() const override {
    const bool is_served = member().endpoint != nullptr || adapters_ == nullptr;
    return is_served ? -1 : adapters_->service_fd();
  }
  void serve() override { adapters_->serve(); }

 private:
  MadePipe open_pipe(tcp::PeerSocket socket, int, const Patience& patience) override {
    auto pipe = VerbsPipe::open(domain_, ranges_, std::move(socket), patience);
    if (!pipe.ok()) return pipe.status();
    return std::unique_ptr<transport::stream::MessagePipe>(std::move(pipe).value());
  }
  std::string place() const override { return "RDMA port " + domain_->adapter().port().text(); }

  const std::shared_ptr<Adapters> adapters_;
  const std::shared_ptr<Domain> domain_;
  const std::shared_ptr<RegisteredRanges> ranges_ = std::make_shared<RegisteredRanges>();
};

Result<std::unique_ptr<transport::Transport>> make_of(const transport::Member& member,
                                                      std::shared_ptr<Adapters> adapters) {
  Result<std::shared_ptr<Domain>> domain = adapters->domain_for(member);
  if (!domain.ok()) {
    return std::unique_ptr<transport::Transport>(
        std::make_unique<Verbs>(member, std::string(domain.status().message())));
  }
  auto door = tcp::MetTransport::open_door(
      member, std::string(gid_kind_name(domain.value()->adapter().gid_kind())));
  if (!door.ok()) return door.status();
  return std::unique_ptr<transport::Transport>(std::make_unique<Verbs>(
      member, std::move(adapters), std::move(domain).value(), std::move(door).value()));
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
