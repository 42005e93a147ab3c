#include "transports/tcp/tcp.h"

#include <optional>
#include <string>
#include <utility>

#include "src/transport/endpoint.h"
#include "transports/tcp/card.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/link.h"

namespace tutti::transports::tcp {
namespace {

class TcpTransport final : public transport::Transport {
 public:
  /// `is_served`: the process's endpoint serves the connector.
  TcpTransport(const transport::Member& member, std::shared_ptr<Connector> connector,
               Connector::Seat& seat, bool is_served)
      : member_(member), connector_(std::move(connector)), seat_(seat), is_served_(is_served) {}
  ~TcpTransport() override { connector_->leave(seat_); }

  std::string_view name() const override { return "tcp"; }
  std::string card() const override { return Connector::card_of(seat_).write(); }
  bool reaches(std::string_view peer_card) const override {
    return TcpCard::read(peer_card).has_value();
  }

  std::string_view level() const override { return "network"; }
  size_t descriptors_per_link() const override { return 1; }

  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   const WaitLimit&) override {
    const std::optional<TcpCard> card = TcpCard::read(peer_card);
    if (!card || peer < 0 || peer >= member_.ranks || peer == member_.rank) {
      return Status::invalid_argument("rank " + std::to_string(peer) +
                                      " has no TCP card, or is not another rank");
    }
    return std::unique_ptr<transport::Link>(connector_->add(seat_, peer, *card));
  }

  int service_fd() const override { return is_served_ ? -1 : connector_->service_fd(); }
  void serve() override { connector_->serve(); }
  void stop_serving() override { connector_->be_quiet(seat_); }

 private:
  const transport::Member& member_;
  const std::shared_ptr<Connector> connector_;
  Connector::Seat& seat_;
  const bool is_served_;
};

Result<std::shared_ptr<Connector>> connector_for(const transport::Member& member) {
  const auto make_one = [&]() -> Result<std::unique_ptr<transport::Endpoint::EndpointPart>> {
    auto made = Connector::create(member.keepalive_ns);
    if (!made.ok()) return made.status();
    return std::unique_ptr<transport::Endpoint::EndpointPart>(std::move(made).value());
  };
  if (member.endpoint == nullptr) {
    auto own = Connector::create(member.keepalive_ns);
    if (!own.ok()) return own.status();
    return std::shared_ptr<Connector>(std::move(own).value());
  }
  auto part = member.endpoint->part("tcp", make_one);
  if (!part.ok()) return part.status();
  return std::static_pointer_cast<Connector>(std::move(part).value());
}

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  Result<std::shared_ptr<Connector>> connector = connector_for(member);
  if (!connector.ok()) return connector.status();
  const Result<Connector::Seat*> seat = connector.value()->enter(member);
  if (!seat.ok()) return seat.status();
  return std::unique_ptr<transport::Transport>(std::make_unique<TcpTransport>(
      member, std::move(connector).value(), *seat.value(), member.endpoint != nullptr));
}

}  // namespace tutti::transports::tcp
