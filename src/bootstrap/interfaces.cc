#include "src/bootstrap/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <memory>

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
  constexpr std::string_view kPrefixes[] = {"docker", "br-", "virbr", "veth",
                                            "cni",    "lxc", "podman"};
  return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

int rank_of(const Interface& interface) {
  const int kind = interface.address.loopback() ? 2 : is_bridge(interface.name) ? 1 : 0;
  return 2 * kind + (interface.address.family == 6 ? 1 : 0);
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
      interfaces.push_back({entry->ifa_name, address.value()});
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
        "no network address is left by TUTTI_SOCKET_IFNAME='" + config.socket_ifname +
        "' and TUTTI_SOCKET_FAMILY (or NCCL's variables); this host has: " + names_of(all));
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Interface& a, const Interface& b) { return rank_of(a) < rank_of(b); });
  return chosen;
}

Result<std::vector<Address>> own_addresses(const Config& config) {
  const Result<std::vector<Interface>> all = list_interfaces();
  if (!all.ok()) return all.status();
  const Result<std::vector<Interface>> chosen = choose_interfaces(all.value(), config);
  if (!chosen.ok()) return chosen.status();
  std::vector<Address> addresses;
  for (const Interface& interface : chosen.value()) addresses.push_back(interface.address);
  return addresses;
}

}  // namespace tutti::bootstrap
