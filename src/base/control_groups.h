// In which control groups (cgroups) this process is: their limits are not those that the system
// otherwise shows.
//
// Threads: no state. Errors: nothing is found where there are none.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// The folders of the group for this controller ("cpu") and of those around it, the innermost
/// first, of either version. `groups`: /proc/self/cgroup; `mounts`: what the groups lie below,
/// /sys/fs/cgroup. In a container that sees only its own groups some of them are not there.
std::vector<std::string> group_folders(std::istream& groups, const std::string& mounts,
                                       std::string_view controller);

/// Of this process.
std::vector<std::string> group_folders(std::string_view controller);

}  // namespace tutti
