#include "transports/verbs/verbs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/transport/door/gate.h"
#include "transports/tcp/met_transport.h"
#include "transports/verbs/adapters.h"
#include "transports/verbs/device_memory.h"
#include "transports/verbs/pipe.h"

namespace tutti::transports::verbs {
namespace {

constexpr tcp::MetTransport::MetKind kKind{"verbs", "tutti-verbs-1", "RDMA"};

class Verbs final : public tcp::MetTransport {
 public:
  Verbs(const transport::Member& member, std::string absence)
      : MetTransport(member, kKind, std::move(absence)) {}
  Verbs(const transport::Member& member, std::shared_ptr<Adapters> adapters, Domains domains,
        MetDoor door)
      : MetTransport(member, kKind, std::move(door)),
        adapters_(std::move(adapters)),
        ground_{std::move(domains), std::make_shared<RegisteredRanges>(),
                std::make_shared<MovedCounts>()} {}

  /// The socket, a channel of completions for each port, and a set of them.
  size_t descriptors_per_link() const override {
    return 2 + std::max<size_t>(1, ground_.domains.size());
  }

  Result<std::shared_ptr<const void>> announce(transport::Buffer memory) override {
    if (ground_.domains.empty()) return std::shared_ptr<const void>();
    return register_range(*ground_.ranges, ground_.domains, memory.data, memory.bytes);
  }

  Result<std::shared_ptr<transport::DeviceAnnouncement>> announce_device(
      const transport::DeviceRange& memory) override {
    if (ground_.domains.empty()) return MetTransport::announce_device(memory);
    return announce_device_memory(*ground_.ranges, ground_.domains, memory);
  }

  std::optional<MovedBytes> moved() const override {
    if (ground_.domains.empty()) return std::nullopt;
    return MovedBytes{ground_.moved->by_cards.load(std::memory_order_relaxed),
                      ground_.moved->by_processor.load(std::memory_order_relaxed)};
  }

  int service_fd() const override {
    const bool is_served = member().endpoint != nullptr || adapters_ == nullptr;
    return is_served ? -1 : adapters_->service_fd();
  }
  void serve() override { adapters_->serve(); }

 private:
  MadePipe open_pipe(tcp::PeerSocket socket, int peer, const WaitLimit& wait_limit) override {
    double rate = 0;
    for (const auto& domain : ground_.domains) rate += domain->adapter().bytes_per_ns();
    const FlowShape wish =
        shape_for(transport::path_between(member(), peer),
                  transport::door::Gate::round_trip_of_tcp(socket.get()), rate, member().rdma);
    auto pipe = VerbsPipe::open(ground_, wish, std::move(socket), wait_limit);
    if (!pipe.ok()) return pipe.status();
    return std::unique_ptr<transport::stream::MessagePipe>(std::move(pipe).value());
  }
  std::string place() const override {
    std::string text = ground_.domains.size() > 1 ? "RDMA ports " : "RDMA port ";
    for (size_t i = 0; i < ground_.domains.size(); ++i) {
      text += (i == 0 ? "" : "+") + ground_.domains[i]->adapter().port().text();
    }
    return text;
  }

  const std::shared_ptr<Adapters> adapters_;
  const PipeGround ground_;
};

Result<std::unique_ptr<transport::Transport>> make_of(const transport::Member& member,
                                                      std::shared_ptr<Adapters> adapters) {
  Result<Domains> domains = adapters->domains_for(member);
  if (!domains.ok()) {
    return std::unique_ptr<transport::Transport>(
        std::make_unique<Verbs>(member, std::string(domains.status().message())));
  }
  auto door = tcp::MetTransport::open_door(
      member, std::string(gid_kind_name(domains.value().front()->adapter().gid_kind())));
  if (!door.ok()) return door.status();
  return std::unique_ptr<transport::Transport>(std::make_unique<Verbs>(
      member, std::move(adapters), std::move(domains).value(), std::move(door).value()));
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
  const Result<CardPort> port = choose_port(list_ports(), member.rdma, {});
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
