// Looks whether packets to another host arrive there, at the ports that ranks use: what a firewall
// drops shows only between two hosts.
//
// Nobody needs to listen there: a host that answers at all, also that nobody listens, was reached.
//
// Errors: none; a host without an address is a finding. Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/doctor_checks.h"

namespace tutti::cli {

/// Ports from the range of which the kernel gives ranks theirs. `proc`: where /proc is.
std::vector<uint16_t> ports_of_ranks(const std::string& proc);

/// `host`: a name or an address. Waits so long for answers.
DoctorFinding look_at_way(const std::string& host, const std::vector<uint16_t>& ports,
                          uint64_t patience_ns);

}  // namespace tutti::cli
