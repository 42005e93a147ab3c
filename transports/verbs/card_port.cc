#include "transports/verbs/card_port.h"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "src/base/words.h"

namespace tutti::transports::verbs {
namespace {

namespace fs = std::filesystem;

/// The first line of a small file; "" where it cannot be read.
std::string read_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string list(const std::vector<CardPort>& ports) {
  std::string text;
  for (const CardPort& port : ports) {
    text += (text.empty() ? "" : ", ") + port.text() + " (" + port.state + ")";
  }
  return text;
}

/// Those of which it is true, if it is of any.
template <class Wanted>
void keep_some(std::vector<CardPort>& ports, const Wanted& wanted) {
  if (std::none_of(ports.begin(), ports.end(), wanted)) return;
  std::erase_if(ports, [&](const CardPort& port) { return !wanted(port); });
}

}  // namespace

std::vector<CardPort> list_ports(const std::string& folder) {
  std::vector<CardPort> ports;
  for (const std::string& card : names_in(folder)) {
    const fs::path place = fs::path(folder) / card;
    const auto node = parse_integer<int>(read_line(place / "device" / "numa_node"));
    for (const std::string& number : names_in(place / "ports")) {
      const auto port = parse_integer<int>(number);
      if (!port) continue;
      // "4: ACTIVE"
      const std::string state = read_line(place / "ports" / number / "state");
      const size_t colon = state.find(": ");
      ports.push_back({card, *port,
                       colon == std::string::npos ? "unknown" : state.substr(colon + 2),
                       node.value_or(-1)});
    }
  }
  return ports;
}

bool takes(std::string_view devices, const CardPort& port) {
  const bool excludes = devices.starts_with('^');
  if (excludes) devices.remove_prefix(1);
  const bool exact = devices.starts_with('=');
  if (exact) devices.remove_prefix(1);
  if (devices.empty()) return true;
  bool named = false;
  for (const std::string_view word : split(devices, ',')) {
    const size_t colon = word.find(':');
    const std::string_view card = word.substr(0, colon);
    const bool same = exact ? port.card == card : port.card.starts_with(card);
    const bool any_port = colon == std::string_view::npos;
    named = named || (same && (any_port || word.substr(colon + 1) == std::to_string(port.port)));
  }
  return named != excludes;
}

Result<std::vector<CardPort>> choose_ports(const std::vector<CardPort>& ports,
                                           const RdmaSettings& settings, const CardSeat& seat) {
  if (!settings.allowed) return Status::unsupported("NCCL_IB_DISABLE forbids RDMA");
  if (ports.empty()) {
    return Status::unsupported("this host has no RDMA card, or its kernel no driver for it (" +
                               std::string(kCardsFolder) + " is empty)");
  }
  std::vector<CardPort> usable;
  for (const CardPort& port : ports) {
    if (takes(settings.devices, port)) usable.push_back(port);
  }
  if (usable.empty()) {
    return Status::unsupported("TUTTI_RDMA_DEVICES=" + settings.devices +
                               " takes none of the ports " + list(ports));
  }
  std::erase_if(usable, [](const CardPort& port) { return !port.active(); });
  if (usable.empty()) {
    return Status::unsupported("no port of an RDMA card that may be used is active: " +
                               list(ports));
  }
  keep_some(usable, [&](const CardPort& port) {
    return std::find(seat.near.begin(), seat.near.end(), port.card) != seat.near.end();
  });
  keep_some(usable, [&](const CardPort& port) {
    return seat.numa_node >= 0 && port.numa_node == seat.numa_node;
  });
  std::vector<bool> is_chosen(usable.size(), false);
  for (size_t i = 0; i < std::min<size_t>(settings.rails, usable.size()); ++i) {
    is_chosen[(static_cast<size_t>(seat.rank) + i) % usable.size()] = true;
  }
  std::vector<CardPort> chosen;
  for (size_t i = 0; i < usable.size(); ++i) {
    if (is_chosen[i]) chosen.push_back(usable[i]);
  }
  return chosen;
}

Result<CardPort> choose_port(const std::vector<CardPort>& ports, const RdmaSettings& settings,
                             const CardSeat& seat) {
  Result<std::vector<CardPort>> chosen = choose_ports(ports, settings, seat);
  if (!chosen.ok()) return chosen.status();
  return std::move(chosen.value().front());
}

int own_numa_node() {
  unsigned processor = 0, node = 0;
  return getcpu(&processor, &node) == 0 ? static_cast<int>(node) : -1;
}

std::string_view gid_kind_name(GidKind kind) {
  constexpr std::string_view kNames[] = {"none", "infiniband", "link-local", "ipv6", "ipv4"};
  return kNames[static_cast<size_t>(kind)];
}

bool is_roce_2(const std::string& folder, const CardPort& port, int index) {
  const fs::path file = fs::path(folder) / port.card / "ports" / std::to_string(port.port) /
                        "gid_attrs" / "types" / std::to_string(index);
  return read_line(file) == "RoCE v2";
}

}  // namespace tutti::transports::verbs
