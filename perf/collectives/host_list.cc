#include "perf/collectives/host_list.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "perf/collectives/board.h"
#include "perf/collectives/error.h"
#include "perf/command_line.h"

namespace tutti::perf {
namespace {

int slots_in(const std::string& text) { return static_cast<int>(whole_number(text, 1, kMaxRanks)); }

/// A name becomes an argument of the launcher, which must not take it for an option or for code.
void check_name(const std::string& name) {
  const auto is_harmless = [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view(".-_:@%").find(static_cast<char>(letter)) != std::string_view::npos;
  };
  if (!name.empty() && name[0] != '-' && std::all_of(name.begin(), name.end(), is_harmless)) return;
  throw PerfError("'" + name + "' is no name of a host", kExitUsage);
}

}  // namespace

HostSlots parse_host(const std::string& text) {
  HostSlots host{text, 1};
  const size_t bracket = text.starts_with('[') ? text.find(']') : std::string::npos;
  const size_t colon = text.find(':', bracket == std::string::npos ? 0 : bracket);
  // Of several colons without brackets all belong to an address of IPv6.
  const bool has_slots =
      colon != std::string::npos && text.find(':', colon + 1) == std::string::npos;
  if (has_slots) host = {text.substr(0, colon), slots_in(text.substr(colon + 1))};
  if (bracket != std::string::npos && host.name.ends_with(']')) {
    host.name = host.name.substr(1, host.name.size() - 2);
  }
  check_name(host.name);
  return host;
}

std::vector<HostSlots> read_hostfile(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw PerfError("cannot read " + path, kExitUsage);
  std::vector<HostSlots> hosts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, slots, more;
    if (!(words >> name)) continue;
    try {
      HostSlots host = parse_host(name);
      if (words >> slots) {
        if (!slots.starts_with("slots=") || words >> more) {
          throw PerfError("'" + (more.empty() ? slots : more) + "' is not slots=N", kExitUsage);
        }
        host.slots = slots_in(slots.substr(6));
      }
      hosts.push_back(std::move(host));
    } catch (const PerfError& error) {
      throw PerfError(path + ":" + std::to_string(number) + ": " + error.what(), kExitUsage);
    }
  }
  if (hosts.empty()) throw PerfError(path + " names no host", kExitUsage);
  return hosts;
}

int slots_of(const std::vector<HostSlots>& hosts) {
  int slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  return slots;
}

std::vector<HostSlots> take_slots(const std::vector<HostSlots>& hosts, int processes) {
  std::vector<HostSlots> taken;
  int left = processes;
  for (const HostSlots& host : hosts) {
    if (left == 0) break;
    taken.push_back({host.name, std::min(host.slots, left)});
    left -= taken.back().slots;
  }
  if (left == 0) return taken;
  throw PerfError("--ranks " + std::to_string(processes) + " are more than the " +
                      std::to_string(slots_of(hosts)) +
                      " that the hosts have room for: node1:4 or slots=4 makes room",
                  kExitUsage);
}

}  // namespace tutti::perf
