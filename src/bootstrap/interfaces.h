// Which addresses of this host the other ranks should use.
//
// Errors: kInvalidUsage names what the configuration asked for and what there is. Threads: no
// state.
#pragma once

#include <string>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"
#include "src/bootstrap/address.h"

namespace tutti::bootstrap {

struct Interface {
  std::string name;
  Address address;
};

/// All addresses of interfaces that are up.
Result<std::vector<Interface>> list_interfaces();

/// Those that the configuration admits, best first: networks before bridges of virtual machines and
/// containers before loopback, IPv4 before IPv6. Never empty.
///
/// socket_ifname as NCCL reads it: a comma list of prefixes, or after '=' of exact names, or after
/// '^' of prefixes to leave out.
Result<std::vector<Interface>> choose_interfaces(const std::vector<Interface>& all,
                                                 const Config& config);

/// The addresses of those, of this host as it is.
Result<std::vector<Address>> own_addresses(const Config& config);

}  // namespace tutti::bootstrap
