#include "transports/tcp/door_card.h"

#include <algorithm>
#include <vector>

#include "src/base/words.h"
#include "src/transport/transport.h"

namespace tutti::transports::tcp {
namespace {

constexpr std::string_view kNone = "none";
constexpr std::string_view kNoFabric = "-";
constexpr size_t kMostHostIdBytes = 200;

/// The words before a reason.
std::string absent(std::string_view tag) {
  return std::string(tag) + " " + std::string(kNone) + " ";
}

}  // namespace

std::string DoorCard::write(std::string_view tag) const {
  if (!absence.empty()) {
    return (absent(tag) + absence).substr(0, transport::Transport::kMaxCardBytes);
  }
  return std::string(tag) + " " + endpoint.host() + " " + std::to_string(endpoint.port()) + " " +
         kind + " " + (fabric.empty() ? std::string(kNoFabric) : fabric) + " " +
         host_id.substr(0, kMostHostIdBytes);
}

std::optional<DoorCard> DoorCard::read(std::string_view tag, std::string_view text) {
  if (text.size() > transport::Transport::kMaxCardBytes) return {};
  const std::vector<std::string_view> words = split(text, ' ');
  DoorCard card;
  if (words.size() < 3 || words[0] != tag) return {};
  if (words[1] == kNone) {
    card.absence = text.substr(absent(tag).size());
    if (card.absence.empty()) return {};
    return card;
  }
  constexpr size_t kWords = 6;
  const auto port = words.size() == kWords ? parse_integer<uint16_t>(words[2]) : std::nullopt;
  if (!port || *port == 0) return {};
  Result<IpEndpoint> endpoint = parse_endpoint(std::string(words[1]), *port);
  if (!endpoint.ok()) return {};
  card.endpoint = endpoint.value();
  card.kind = words[3];
  card.fabric = words[4] == kNoFabric ? "" : words[4];
  card.host_id = words[5];
  return card;
}

}  // namespace tutti::transports::tcp
