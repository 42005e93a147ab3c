// Lines NAME=VALUE of NCCL's configuration files.
//
// Errors: none; what is no such line is passed over. Threads: no state. Depends on nothing of the
// library, so that tests can give it any bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti::nccl {

struct ConfigurationLine {
  std::string name;  // begins with NCCL_
  std::string value;
};

/// In their order; blanks around names and values do not count.
std::vector<ConfigurationLine> read_configuration_lines(std::string_view text);

}  // namespace tutti::nccl
