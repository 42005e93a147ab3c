#include "src/bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "src/base/words.h"

namespace tutti::bootstrap {
namespace {

/// socket_ifname, taken apart.
class Pattern {
 public:
  explicit Pattern(std::string_view text) {
    exclude_ = text.starts_with('^');
    if (exclude_) text.remove_prefix(1);
    exact_ = text.starts_with('=');
    if (exact_) text.remove_prefix(1);
    for (const std::string_view piece : split(text, ',')) {
      if (const std::string_view name = trim(piece); !name.empty()) names_.emplace_back(name);
    }
  }

  bool admits(const std::string& name) const {
    if (names_.empty()) return true;
    const bool named = std::any_of(names_.begin(), names_.end(), [&](const std::string& wanted) {
      return exact_ ? name == wanted : name.starts_with(wanted);
    });
    return named != exclude_;
  }

 private:
  bool exclude_ = false;
  bool exact_ = false;
  std::vector<std::string> names_;
};

bool admits(SocketFamily family, const Address& address) {
  if (family == SocketFamily::kIpv4) return address.family == 4;
  if (family == SocketFamily::kIpv6) return address.family == 6;
  return true;
}

/// Bridges usually have the same private address on every host: the worst one to publish.
bool is_bridge(const std::string& name) {
  constexpr std::string_view kPrefixes[] = {"docker", "br-",   "virbr",   "veth",    "cni",
                                            "lxc",    "lxdbr", "incusbr", "vboxnet", "podman"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

enum class InterfaceKind { kNetwork, kBridge, kLinkLocal, kNoCarrier, kLoopback };  // best first

InterfaceKind kind_of(const Interface& interface) {
  if (interface.address.loopback()) return InterfaceKind::kLoopback;
  if (!interface.carrier) return InterfaceKind::kNoCarrier;
  if (interface.address.link_local()) return InterfaceKind::kLinkLocal;
  return is_bridge(interface.name) ? InterfaceKind::kBridge : InterfaceKind::kNetwork;
}

int rank_of(const Interface& interface) {
  return 2 * static_cast<int>(kind_of(interface)) + (interface.address.family == 6 ? 1 : 0);
}

/// The interface by which this host calls the first place that it has a route to, as far as it is
/// among the chosen. IPv4 first: a name means addresses of both families, and not every host has
/// the newer one.
std::vector<Interface>::iterator find_towards(std::vector<Interface>& chosen,
                                              std::vector<Address> places) {
  std::stable_partition(places.begin(), places.end(),
                        [](const Address& place) { return place.family == 4; });
  for (const Address& place : places) {
    const std::optional<Address> source = source_towards(place);
    if (!source || source->loopback()) continue;
    const auto found = std::find_if(chosen.begin(), chosen.end(), [&](const Interface& interface) {
      return interface.address == *source;
    });
    if (found != chosen.end()) return found;
  }
  return chosen.end();
}

std::string names_of(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const Interface& interface : interfaces) {
    text += (text.empty() ? "" : ", ") + interface.name + " " + interface.address.text();
  }
  return text.empty() ? "none" : text;
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return errno_status("getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if ((entry->ifa_flags & IFF_UP) == 0) continue;
    const Result<Address> address = Address::from(entry->ifa_addr);
    if (address.ok() && address.value().usable()) {
      const bool carrier = (entry->ifa_flags & IFF_RUNNING) != 0;
      interfaces.push_back({entry->ifa_name, address.value(), carrier});
    }
  }
  return interfaces;
}

Result<std::vector<Interface>> choose_interfaces(const std::vector<Interface>& all,
                                                 const Config& config) {
  const Pattern pattern(config.socket_ifname);
  std::vector<Interface> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen), [&](const Interface& one) {
    return pattern.admits(one.name) && admits(config.socket_family, one.address);
  });
  if (chosen.empty()) {
    return Status::invalid_usage(
        "no network address is left by " + origin_of(config, "TUTTI_SOCKET_IFNAME") + "='" +
        config.socket_ifname + "' and " + origin_of(config, "TUTTI_SOCKET_FAMILY") +
        "; this host has: " + names_of(all));
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Interface& a, const Interface& b) { return rank_of(a) < rank_of(b); });
  return chosen;
}

std::vector<Interface> worth_announcing(std::vector<Interface> chosen, const Places& places) {
  const InterfaceKind best = kind_of(chosen.front());
  const bool choice = chosen.size() > 1 && kind_of(chosen[1]) != InterfaceKind::kLoopback;
  auto rest = chosen.begin();
  if (choice && places) {
    const auto found = find_towards(chosen, places());
    if (found != chosen.end()) rest = std::rotate(chosen.begin(), found, found + 1);
  }
  chosen.erase(std::remove_if(rest, chosen.end(),
                              [&](const Interface& one) { return kind_of(one) != best; }),
               chosen.end());
  return chosen;
}

std::vector<Address> addresses_of(const std::vector<Interface>& interfaces) {
  std::vector<Address> addresses;
  for (const Interface& interface : interfaces) addresses.push_back(interface.address);
  return addresses;
}

Result<std::vector<Interface>> own_interfaces(const Config& config) {
  const Result<std::vector<Interface>> all = list_interfaces();
  if (!all.ok()) return all.status();
  return choose_interfaces(all.value(), config);
}

Result<std::vector<Interface>> announced_interfaces(const Config& config, const Places& places) {
  Result<std::vector<Interface>> chosen = own_interfaces(config);
  if (!chosen.ok()) return chosen;
  return worth_announcing(std::move(chosen).value(), places);
}

}  // namespace tutti::bootstrap
