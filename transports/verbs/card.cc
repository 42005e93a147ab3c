#include "transports/verbs/card.h"

#include <algorithm>
#include <vector>

#include "src/base/words.h"
#include "src/transport/transport.h"

namespace tutti::transports::verbs {
namespace {

constexpr std::string_view kTag = "tutti-verbs-1";
constexpr std::string_view kNone = "none";
constexpr std::string_view kNoFabric = "-";
constexpr size_t kMostHostIdBytes = 200;
constexpr size_t kMostReasonBytes =
    transport::Transport::kMaxCardBytes - kTag.size() - kNone.size() - 2;

}  // namespace

std::string VerbsCard::write() const {
  const std::string tag(kTag);
  if (!absence.empty()) {
    return tag + " " + std::string(kNone) + " " + absence.substr(0, kMostReasonBytes);
  }
  return tag + " " + endpoint.host() + " " + std::to_string(endpoint.port()) + " " + kind + " " +
         (fabric.empty() ? std::string(kNoFabric) : fabric) + " " +
         host_id.substr(0, kMostHostIdBytes);
}

std::optional<VerbsCard> VerbsCard::read(std::string_view text) {
  if (text.size() > transport::Transport::kMaxCardBytes) return {};
  const std::vector<std::string_view> words = split(text, ' ');
  VerbsCard card;
  if (words.size() < 3 || words[0] != kTag) return {};
  if (words[1] == kNone) {
    card.absence = text.substr(kTag.size() + kNone.size() + 2);
    if (card.absence.empty()) return {};
    return card;
  }
  constexpr size_t kWords = 6;
  const auto port = words.size() == kWords ? parse_integer<uint16_t>(words[2]) : std::nullopt;
  if (!port || *port == 0) return {};
  Result<tcp::IpEndpoint> endpoint = tcp::parse_endpoint(std::string(words[1]), *port);
  if (!endpoint.ok()) return {};
  card.endpoint = endpoint.value();
  card.kind = words[3];
  card.fabric = words[4] == kNoFabric ? "" : words[4];
  card.host_id = words[5];
  return card;
}

}  // namespace tutti::transports::verbs
