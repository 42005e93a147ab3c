#include "transports/tcp/card.h"

#include <charconv>
#include <utility>

#include "src/transport/transport.h"

namespace tutti::transports::tcp {
namespace {

constexpr std::string_view kTag = "tutti-tcp-2";
constexpr size_t kMaxHostIdBytes = 256;

std::string_view next_word(std::string_view& text) {
  const size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return word;
}

}  // namespace

std::string TcpCard::write() const {
  return std::string(kTag) + " " + endpoint.host() + " " + std::to_string(endpoint.port()) + " " +
         host_id.substr(0, kMaxHostIdBytes);
}

std::optional<TcpCard> TcpCard::read(std::string_view text) {
  if (text.size() > transport::Transport::kMaxCardBytes || next_word(text) != kTag) return {};
  const std::string host(next_word(text));
  const std::string_view digits = next_word(text);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return {};
  Result<IpEndpoint> endpoint = parse_endpoint(host, port);
  if (!endpoint.ok()) return {};
  return TcpCard{endpoint.value(), std::string(text)};
}

}  // namespace tutti::transports::tcp
