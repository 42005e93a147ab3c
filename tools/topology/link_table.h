// Latency and bandwidth as measured between every two of a few hosts, and the file that keeps them.
//
// Threads: values. Errors: "FILE:LINE: why"; kSystemError where a file cannot be read or written.
// Units: nanoseconds one way, bytes per nanosecond in one direction.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/status.h"

namespace tutti::topology {

struct LinkTable {
  std::vector<std::string> hosts;
  std::vector<std::vector<double>> latency_ns;    // [host][host], 0 on the diagonal
  std::vector<std::vector<double>> bytes_per_ns;  // the same
  bool operator==(const LinkTable&) const = default;
};

std::string write_links(const LinkTable& links);
Result<LinkTable> parse_links(std::string_view text, const std::string& file);

/// Where this user keeps the table of these hosts, which are a set: in XDG_CACHE_HOME, else in
/// ~/.cache. Empty where there is neither.
std::string links_path(const std::vector<std::string>& hosts, const Variables& variables);

/// For people: two matrices.
std::string print_links(const LinkTable& links);

}  // namespace tutti::topology
