// Small files of Linux's /sys: their first line, as text, as a set of processors, as a number.
//
// Threads: no state. Errors: nullopt for a file that is not there or says something else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti::topology {

std::optional<std::string> read_line(const std::string& path);
std::optional<std::vector<uint32_t>> read_set(const std::string& path);
/// The names inside a folder, in order; none where it is not there.
std::vector<std::string> names_in(const std::string& folder);

}  // namespace tutti::topology
