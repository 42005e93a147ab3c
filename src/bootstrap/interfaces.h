// Which addresses of this host the other ranks should use.
//
// Errors: kInvalidUsage names what the configuration asked for and what there is. Threads: no
// state.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/bootstrap/address.h"

namespace tutti::bootstrap {

struct Interface {
  std::string name;
  Address address;
  bool carrier = true;  // there is somebody at the other end of the cable
};

/// All addresses of interfaces that are up.
Result<std::vector<Interface>> list_interfaces();

/// Those that the configuration admits, best first: networks before bridges of virtual machines and
/// containers before 169.254.0.0/16 before interfaces without a carrier before loopback, IPv4
/// before IPv6. Never empty.
///
/// socket_ifname as NCCL reads it: a comma list of prefixes, or after '=' of exact names, or after
/// '^' of prefixes to leave out.
Result<std::vector<Interface>> choose_interfaces(const std::vector<Interface>& all,
                                                 const Config& config);

/// Addresses that all ranks were told: they show which of several networks the ranks share. Asked
/// for only where there is a choice, since names may take a while to resolve.
using Places = std::function<std::vector<Address>()>;

/// Of chosen interfaces those that other hosts shall be told: the one by which this host calls the
/// first of the places that it has a route to, then those of the best kind. A loopback address says
/// nothing: a host's own name may mean one.
std::vector<Interface> worth_announcing(std::vector<Interface> chosen, const Places& places);

std::vector<Address> addresses_of(const std::vector<Interface>& interfaces);

// Both of this host as it is.
Result<std::vector<Interface>> own_interfaces(const Config& config);
Result<std::vector<Interface>> announced_interfaces(const Config& config, const Places& places);

}  // namespace tutti::bootstrap
