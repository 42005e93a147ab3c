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

/// The port that rank `rank`, which runs on this NUMA node, uses: an active one, on its node if one
/// is there; ranks of a node take turns.
Result<CardPort> choose_port(const std::vector<CardPort>& ports, const RdmaSettings& settings,
                             int rank, int numa_node);

/// Of the processor that runs this thread; -1: not known.
int own_numa_node();

/// How packets of a port are addressed; both ends have to do it alike.
enum class GidKind { kNone, kInfiniband, kLinkLocal, kIpv6, kIpv4 };  // better ones later
std::string_view gid_kind_name(GidKind kind);

/// The kinds of a port's addresses by their index, without looking at their bytes: true where
/// packets go by RoCE version 2.
bool is_roce_2(const std::string& folder, const CardPort& port, int index);

}  // namespace tutti::transports::verbs
