#include "src/base/setting_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "src/base/words.h"

namespace tutti {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

template <class Value, size_t kCount>
std::optional<Value> look_up(const std::pair<std::string_view, Value> (&words)[kCount],
                             std::string_view text) {
  const std::string wanted = lower(text);
  for (const auto& [word, value] : words) {
    if (word == wanted) return value;
  }
  return std::nullopt;
}

/// The first word of a value.
template <class Value, size_t kCount>
std::string_view name_of(const std::pair<std::string_view, Value> (&words)[kCount], Value value) {
  const auto* const found = std::find_if(std::begin(words), std::end(words),
                                         [&](const auto& entry) { return entry.second == value; });
  return found->first;
}

constexpr std::pair<std::string_view, bool> kSwitches[] = {
    {"1", true},  {"true", true},   {"yes", true}, {"on", true},
    {"0", false}, {"false", false}, {"no", false}, {"off", false}};

constexpr std::pair<std::string_view, LogLevel> kLevels[] = {
    {"off", LogLevel::kOff},         {"error", LogLevel::kError}, {"warn", LogLevel::kWarning},
    {"info", LogLevel::kInfo},       {"debug", LogLevel::kDebug}, {"trace", LogLevel::kTrace},
    {"warning", LogLevel::kWarning}, {"none", LogLevel::kOff},    {"version", LogLevel::kWarning},
    {"abort", LogLevel::kError}};

constexpr std::pair<std::string_view, SocketFamily> kFamilies[] = {
    {"any", SocketFamily::kAny},      {"ipv4", SocketFamily::kIpv4},
    {"ipv6", SocketFamily::kIpv6},    {"4", SocketFamily::kIpv4},
    {"6", SocketFamily::kIpv6},       {"af_inet", SocketFamily::kIpv4},
    {"af_inet6", SocketFamily::kIpv6}};

constexpr std::pair<std::string_view, EngineWish> kEngines[] = {
    {"auto", EngineWish::kAuto},
    {"host", EngineWish::kHost},
    {"copy_engine", EngineWish::kCopyEngine},
    {"kernel", EngineWish::kKernel},
    {"nccl", EngineWish::kNccl},
    {"no_nccl", EngineWish::kNoNccl},
    {"0", EngineWish::kAuto},
    {"1", EngineWish::kAuto},
    {"2", EngineWish::kCopyEngine}};

constexpr std::pair<std::string_view, StagingStores> kStores[] = {
    {"measured", StagingStores::kMeasured},
    {"cached", StagingStores::kCached},
    {"streaming", StagingStores::kStreaming}};

constexpr std::pair<std::string_view, int> kSuffixes[] = {
    {"", 0},    {"b", 0},    {"k", 10}, {"kb", 10}, {"kib", 10}, {"m", 20},
    {"mb", 20}, {"mib", 20}, {"g", 30}, {"gb", 30}, {"gib", 30}};

}  // namespace

std::optional<uint64_t> parse_bytes(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_integer<uint64_t>(text.substr(0, digits));
  const auto shift = look_up(kSuffixes, text.substr(digits));
  if (!number || !shift || *number > (~uint64_t{0} >> 1) >> *shift) return std::nullopt;
  return *number << *shift;
}

std::string show_bytes(uint64_t bytes) {
  constexpr std::pair<int, char> kUnits[] = {{30, 'G'}, {20, 'M'}, {10, 'K'}};
  for (const auto& [shift, letter] : kUnits) {
    if (bytes != 0 && bytes % (uint64_t{1} << shift) == 0) {
      return std::to_string(bytes >> shift) + letter;
    }
  }
  return std::to_string(bytes);
}

std::optional<uint64_t> parse_seconds(std::string_view text) {
  constexpr uint64_t kLongestSeconds = 10'000'000;  // four months
  constexpr size_t kMostDigits = 9;
  if (lower(text) == "none") return kNoDeadline;
  const size_t point = std::min(text.find('.'), text.size());
  const auto seconds = parse_integer<uint64_t>(text.substr(0, point));
  if (!seconds || *seconds > kLongestSeconds) return std::nullopt;
  uint64_t nanoseconds = *seconds * kNanosecondsPerSecond;
  if (point < text.size()) {
    std::string digits(text.substr(point + 1));
    if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
    digits.append(kMostDigits - digits.size(), '0');
    const auto fraction = parse_integer<uint64_t>(digits);
    if (!fraction) return std::nullopt;
    nanoseconds += *fraction;
  }
  if (nanoseconds == 0) return std::nullopt;
  return nanoseconds;
}

std::string show_seconds(uint64_t nanoseconds) {
  if (nanoseconds == kNoDeadline) return "none";
  std::string text = std::to_string(nanoseconds / kNanosecondsPerSecond);
  std::string fraction = std::to_string(nanoseconds % kNanosecondsPerSecond);
  fraction.insert(0, 9 - fraction.size(), '0');
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return fraction.empty() ? text : text + "." + fraction;
}

namespace {

/// Letters, digits, and what stands between them in names of hosts. ':' is only in IPv6 addresses.
bool is_host(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

}  // namespace

std::optional<HostPort> parse_place(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto port = parse_integer<uint16_t>(text.substr(colon + 1));
  if (!port || *port == 0) return std::nullopt;
  const std::string_view host = text.substr(0, colon);
  if (is_host(host)) return HostPort{std::string(host), *port};
  if (!host.starts_with('[') || !host.ends_with(']')) return std::nullopt;
  const std::string inner(host.substr(1, host.size() - 2));
  in6_addr six{};
  if (inet_pton(AF_INET6, inner.c_str(), &six) != 1) return std::nullopt;
  return HostPort{inner, *port};
}

std::optional<bool> parse_switch(std::string_view text) { return look_up(kSwitches, text); }

std::optional<LogLevel> parse_log_level(std::string_view text) { return look_up(kLevels, text); }

std::string_view log_level_name(LogLevel level) { return name_of(kLevels, level); }

std::optional<SocketFamily> parse_socket_family(std::string_view text) {
  return look_up(kFamilies, text);
}

std::string_view socket_family_name(SocketFamily family) { return name_of(kFamilies, family); }

std::optional<EngineWish> parse_engine(std::string_view text) { return look_up(kEngines, text); }

std::string_view engine_name(EngineWish engine) { return name_of(kEngines, engine); }

std::optional<StagingStores> parse_staging_stores(std::string_view text) {
  return look_up(kStores, text);
}

std::string_view staging_stores_name(StagingStores stores) { return name_of(kStores, stores); }

std::optional<std::string_view> parse_nccl_network(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kNetworks[] = {{"socket", "Socket"}};
  return look_up(kNetworks, text);
}

namespace {

/// NCCL's name of a collective and ours.
constexpr std::pair<std::string_view, std::string_view> kCollectives[] = {
    {"allreduce", "all_reduce"}, {"allgather", "all_gather"}, {"reducescatter", "reduce_scatter"},
    {"broadcast", "broadcast"},  {"reduce", "reduce"},
};

/// As NCCL's manual writes them; which of them there is a counterpart of, algorithms say.
constexpr std::pair<std::string_view, std::string_view> kNcclAlgorithms[] = {
    {"tree", "Tree"},
    {"ring", "Ring"},
    {"collnetdirect", "CollnetDirect"},
    {"collnetchain", "CollnetChain"},
    {"nvls", "NVLS"},
    {"nvlstree", "NVLSTree"},
    {"pat", "PAT"}};

/// "tree, ring" as NCCL writes them.
std::optional<std::vector<std::string>> nccl_algorithms_in(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view word : split(list, ',')) {
    const auto name = look_up(kNcclAlgorithms, trim(word));
    if (!name) return std::nullopt;
    names.emplace_back(*name);
  }
  return names;
}

}  // namespace

std::optional<NcclAlgorithms> parse_nccl_algorithms(std::string_view text) {
  std::map<std::string_view, std::vector<std::string>> wanted;  // by collective
  const std::string words = lower(text);
  bool first = true;
  for (const std::string_view part : split(words, ';')) {
    const size_t colon = part.find(':');
    const std::string_view function = trim(part.substr(0, colon == part.npos ? 0 : colon));
    if (function.empty() && (colon != part.npos || !first)) return std::nullopt;
    const auto names = nccl_algorithms_in(part.substr(colon == part.npos ? 0 : colon + 1));
    if (!names) return std::nullopt;
    bool known = function.empty();
    for (const auto& [theirs, ours] : kCollectives) {
      if (!function.empty() && function != theirs) continue;
      known = true;
      wanted[ours] = *names;
    }
    if (!known) return std::nullopt;
    first = false;
  }
  return NcclAlgorithms(wanted.begin(), wanted.end());
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
}

}  // namespace tutti
