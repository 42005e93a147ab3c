// The ports of this host's RDMA cards, as the kernel lists them in /sys/class/infiniband: known
// without any library, and cheap to look at.
//
// Errors: kUnsupported says why no port can be used, in one sentence. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/rdma_settings.h"
#include "src/base/status.h"

namespace tutti::transports::verbs {

inline constexpr const char* kCardsFolder = "/sys/class/infiniband";

struct CardPort {
  std::string card;  // "mlx5_0"
  int port = 1;
  std::string state;   // "ACTIVE", "DOWN"
  int numa_node = -1;  // -1: not known
  bool active() const { return state == "ACTIVE"; }
  std::string text() const { return card + ":" + std::to_string(port); }
};

/// By name and number.
std::vector<CardPort> list_ports(const std::string& folder = kCardsFolder);

/// Whether RdmaSettings::devices takes this port.
bool takes(std::string_view devices, const CardPort& port);

/// Where a rank is, as far as that tells which cards are near to it.
struct CardSeat {
  int rank = 0;
  int numa_node = -1;             // -1: not known
  std::vector<std::string> near;  // cards that are nearest to its device; empty: not known
};

/// The ports that a rank uses, RdmaSettings::rails of them if there are as many: active ones, of
/// the cards that are nearest to its device, else on its NUMA node, else any. Ranks take turns.
/// They are in the order of their names, so that cards of one number talk to each other between
/// hosts.
Result<std::vector<CardPort>> choose_ports(const std::vector<CardPort>& ports,
                                           const RdmaSettings& settings, const CardSeat& seat);
/// The first of them.
Result<CardPort> choose_port(const std::vector<CardPort>& ports, const RdmaSettings& settings,
                             const CardSeat& seat);

/// Of the processor that runs this thread; -1: not known.
int own_numa_node();

/// How packets of a port are addressed; both ends have to do it alike.
enum class GidKind { kNone, kInfiniband, kLinkLocal, kIpv6, kIpv4 };  // better ones later
std::string_view gid_kind_name(GidKind kind);

/// The kinds of a port's addresses by their index, without looking at their bytes: true where
/// packets go by RoCE version 2.
bool is_roce_2(const std::string& folder, const CardPort& port, int index);

}  // namespace tutti::transports::verbs
