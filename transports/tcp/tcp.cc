#include "transports/tcp/tcp.h"

#include <optional>
#include <string>
#include <utility>

#include "transports/tcp/card.h"
#include "transports/tcp/connector.h"
#include "transports/tcp/link.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

class TcpTransport final : public transport::Transport {
 public:
  TcpTransport(const transport::Member& member, TcpCard card, std::unique_ptr<Connector> connector)
      : member_(member), card_(std::move(card)), connector_(std::move(connector)) {}

  std::string_view name() const override { return "tcp"; }
  std::string card() const override { return card_.write(); }
  bool reaches(std::string_view peer_card) const override {
    return TcpCard::read(peer_card).has_value();
  }

  std::string_view level() const override { return "network"; }
  size_t descriptors_per_link() const override { return 1; }

  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   const Patience&) override {
    const std::optional<TcpCard> card = TcpCard::read(peer_card);
    if (!card || peer < 0 || peer >= member_.ranks || peer == member_.rank) {
      return Status::invalid_argument("rank " + std::to_string(peer) +
                                      " has no TCP card, or is not another rank");
    }
    auto link =
        std::make_unique<TcpLink>(member_.rank, peer, card->endpoint.text(), connector_.get());
    connector_->add(*link, peer, *card);
    return std::unique_ptr<transport::Link>(std::move(link));
  }

  int service_fd() const override { return connector_->fd(); }
  void serve() override { connector_->serve(); }

 private:
  const transport::Member& member_;
  const TcpCard card_;
  const std::unique_ptr<Connector> connector_;
};

}  // namespace

Result<std::unique_ptr<transport::Transport>> make(const transport::Member& member) {
  Result<Endpoint> wanted = parse_endpoint(member.bind_address, 0);
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
  Result<Endpoint> endpoint = local_endpoint(listener.value().get());
  if (!endpoint.ok()) return endpoint.status();
  TcpCard card{endpoint.value(), member.host_id};
  Result<std::unique_ptr<Connector>> connector =
      Connector::create(member, card, std::move(listener).value());
  if (!connector.ok()) return connector.status();
  return std::unique_ptr<transport::Transport>(
      std::make_unique<TcpTransport>(member, std::move(card), std::move(connector).value()));
}

}  // namespace tutti::transports::tcp
