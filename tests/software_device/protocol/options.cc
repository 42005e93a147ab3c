#include "tests/software_device/protocol/options.h"

#include <cstdlib>

namespace softdev {
namespace {

struct NamedFault {
  const char* name;
  Fault fault;
};

constexpr NamedFault kFaults[] = {
    {"none", Fault::kNone},
    {"no_ready", Fault::kNoReady},
    {"no_done", Fault::kNoDone},
    {"flag_in_batch", Fault::kFlagInBatch},
    {"one_wait_too_few", Fault::kOneWaitTooFew},
};

struct Switch {
  const char* name;
  bool ProtocolOptions::*field;
};

constexpr Switch kSwitches[] = {
    {"--threads", &ProtocolOptions::threads},
    {"--legacy-handles", &ProtocolOptions::legacy_handles},
    {"--host-flags", &ProtocolOptions::host_flags},
    {"--copied-flags", &ProtocolOptions::copied_flags},
    {"--graph", &ProtocolOptions::graph},
};

bool take_fault(const std::string& name, ProtocolOptions& options) {
  for (const NamedFault& named : kFaults) {
    if (name != named.name) continue;
    options.fault = named.fault;
    return true;
  }
  return false;
}

bool take(const std::string& argument, ProtocolOptions& options) {
  for (const Switch& known : kSwitches) {
    if (argument == known.name) return options.*known.field = true;
  }
  const size_t equals = argument.find('=');
  if (equals == argument.npos) return false;
  const std::string name = argument.substr(0, equals);
  const std::string value = argument.substr(equals + 1);
  const long number = std::strtol(value.c_str(), nullptr, 10);
  if (name == "--fault") return take_fault(value, options);
  if (number < 1) return false;
  if (name == "--ranks") {
    options.ranks = static_cast<int>(number);
  } else if (name == "--iterations") {
    options.iterations = static_cast<int>(number);
  } else if (name == "--bytes") {
    options.bytes = static_cast<size_t>(number);
  } else if (name == "--limit") {
    options.limit_s = static_cast<unsigned>(number);
  } else {
    return false;
  }
  return true;
}

}  // namespace

const char* const kProtocolUsage =
    "usage: device_protocol [--ranks=N] [--iterations=N] [--bytes=N] [--limit=SECONDS]\n"
    "         [--threads] [--legacy-handles] [--host-flags] [--copied-flags] [--graph]\n"
    "         [--fault=none|no_ready|no_done|flag_in_batch|one_wait_too_few]\n"
    "  --threads goes with neither --host-flags nor --legacy-handles, --graph with neither\n"
    "  --copied-flags nor a fault: a graph's values are the same each time\n";

std::optional<ProtocolOptions> parse_options(int argc, char** argv) {
  ProtocolOptions options;
  for (int i = 1; i < argc; ++i) {
    if (!take(argv[i], options)) return std::nullopt;
  }
  const bool of_processes = options.host_flags || options.legacy_handles;
  if (options.ranks < 2 || options.ranks > kMostRanks) return std::nullopt;
  if (options.threads && of_processes) return std::nullopt;
  if (options.graph && (options.copied_flags || options.fault != Fault::kNone)) return std::nullopt;
  return options;
}

}  // namespace softdev
