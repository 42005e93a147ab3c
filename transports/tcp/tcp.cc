#include "transports/tcp/tcp.h"

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "src/transport/call.h"
#include "transports/tcp/doorman.h"
#include "transports/tcp/link.h"
#include "transports/tcp/socket.h"

namespace tutti::transports::tcp {
namespace {

constexpr std::string_view kTag = "tutti-tcp-1";
constexpr size_t kMaxHostIdBytes = 256;

/// "tutti-tcp-1 ADDRESS PORT HOST-ID".
struct Card {
  Endpoint endpoint;
  std::string host_id;
};

std::string_view next_word(std::string_view& text) {
  const size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

std::optional<Card> parse_card(std::string_view text) {
  if (text.size() > transport::Transport::kMaxCardBytes || next_word(text) != kTag) return {};
  const std::string host(next_word(text));
  const std::string_view digits = next_word(text);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return {};
  Result<Endpoint> endpoint = parse_endpoint(host, port);
  if (!endpoint.ok()) return {};
  return Card{endpoint.value(), std::string(text)};
}

class TcpTransport final : public transport::Transport {
 public:
  TcpTransport(const transport::Member& member, Endpoint endpoint, Fd listener)
      : member_(member), endpoint_(endpoint), doorman_(std::move(listener), member) {}

  std::string_view name() const override { return "tcp"; }

  std::string card() const override {
    return std::string(kTag) + " " + endpoint_.host() + " " + std::to_string(endpoint_.port()) +
           " " + member_.host_id.substr(0, kMaxHostIdBytes);
  }

  bool reaches(std::string_view peer_card) const override {
    return parse_card(peer_card).has_value();
  }

  Result<std::unique_ptr<transport::Link>> connect(int peer, std::string_view peer_card,
                                                   uint64_t deadline_ns) override {
    const std::optional<Card> card = parse_card(peer_card);
    if (!card || peer < 0 || peer >= member_.ranks || peer == member_.rank) {
      return Status::invalid_argument("rank " + std::to_string(peer) +
                                      " has no TCP card, or is not another rank");
    }
    Result<Fd> fd =
        member_.rank < peer ? call(peer, *card, deadline_ns) : doorman_.admit(peer, deadline_ns);
    if (!fd.ok()) return explain(fd.status(), peer, *card);
    if (Status status = make_fast(fd.value().get()); !status.ok()) {
      return explain(status, peer, *card);
    }
    return std::unique_ptr<transport::Link>(std::make_unique<TcpLink>(
        std::move(fd).value(), member_.rank, peer, card->endpoint.text()));
  }

 private:
  Result<Fd> call(int peer, const Card& card, uint64_t deadline_ns) const {
    transport::Identity self;
    self.rank = member_.rank;
    self.peer = peer;
    self.communicator = member_.communicator;
    self.epoch = member_.epoch;
    self.purpose = transport::Purpose::kTcp;
    return transport::pass_gate([&] { return dial(card.endpoint); }, member_.key, self,
                                deadline_ns);
  }

  /// A reason as the socket knows it, in the words of the ranks.
  Status explain(const Status& reason, int peer, const Card& card) const {
    const bool network = reason.code() == Code::kSystemError || reason.code() == Code::kTimeout;
    std::string text = "rank " + std::to_string(member_.rank) + " has no connection with rank " +
                       std::to_string(peer) + " at " + card.endpoint.text() + " (host " +
                       card.host_id + "): " + std::string(reason.message());
    if (network) {
      text += "; check that its process runs, that no firewall is between the hosts, and that " +
              endpoint_.host() + " and " + card.endpoint.host() + " are in one network";
    }
    return {network && reason.code() != Code::kTimeout ? Code::kRemoteError : reason.code(), text};
  }

  const transport::Member& member_;
  const Endpoint endpoint_;
  Doorman doorman_;
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
  Result<Fd> listener = listen_on(wanted.value());
  if (!listener.ok()) {
    return Status::system_error(
        "rank " + std::to_string(member.rank) + " cannot listen on " + member.bind_address + ": " +
        std::string(listener.status().message()) + "; give an address of this host");
  }
  Result<Endpoint> endpoint = local_endpoint(listener.value().get());
  if (!endpoint.ok()) return endpoint.status();
  return std::unique_ptr<transport::Transport>(
      std::make_unique<TcpTransport>(member, endpoint.value(), std::move(listener).value()));
}

}  // namespace tutti::transports::tcp
