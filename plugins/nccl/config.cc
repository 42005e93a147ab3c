#include "plugins/nccl/config.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <string>

namespace tutti::nccl {
namespace {

constexpr size_t kLeastBytes = 24;  // of 2.14: the header and `blocking`
static_assert(offsetof(ncclConfig_t, blocking) == 16);
static_assert(offsetof(ncclConfig_t, netName) == 32);
static_assert(offsetof(ncclConfig_t, commName) == 48);
static_assert(offsetof(ncclConfig_t, numRmaCtx) == 84);
static_assert(offsetof(ncclConfig_t, nvlsHostMode) == 112);
static_assert(sizeof(ncclConfig_t) == 120);

struct Field {
  const char* name;
  int ncclConfig_t::*value;
  unsigned since;
  int least;
  int most;
};

constexpr Field kFields[] = {
    {"blocking", &ncclConfig_t::blocking, 21400, 0, 1},
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 21700, 0, INT_MAX},
    {"minCTAs", &ncclConfig_t::minCTAs, 21700, 1, INT_MAX},
    {"maxCTAs", &ncclConfig_t::maxCTAs, 21700, 1, INT_MAX},
    {"splitShare", &ncclConfig_t::splitShare, 21800, 0, 1},
    {"trafficClass", &ncclConfig_t::trafficClass, 22500, INT_MIN, INT_MAX},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 22700, 0, 1},
    {"CTAPolicy", &ncclConfig_t::CTAPolicy, 22700, 0, 3},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 22700, 0, 1},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 22700, 1, INT_MAX},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 22800, 1, 64},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 22800, 0, 1},
    {"graphUsageMode", &ncclConfig_t::graphUsageMode, 22900, 0, 2},
    {"numRmaCtx", &ncclConfig_t::numRmaCtx, 22900, 0, INT_MAX},
    {"maxP2pPeers", &ncclConfig_t::maxP2pPeers, 23000, 1, INT_MAX},
    {"graphStreamOrdering", &ncclConfig_t::graphStreamOrdering, 23005, 0, 1},
    {"launchOrderImplicit", &ncclConfig_t::launchOrderImplicit, 23100, INT_MIN, INT_MAX},
    {"numRmaSig", &ncclConfig_t::numRmaSig, 23100, INT_MIN, INT_MAX},
    {"rmaEagerInit", &ncclConfig_t::rmaEagerInit, 23100, INT_MIN, INT_MAX},
    {"hostCftMode", &ncclConfig_t::hostCftMode, 23100, 1, 3},
    {"nvlsHostMode", &ncclConfig_t::nvlsHostMode, 23200, 0, INT_MAX},
};

ncclConfig_t all_undefined() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  return config;
}

/// Text fields are addresses: one that the caller's version did not have, or that the caller's
/// struct ends in the middle of, must not be followed.
void forget_newer_fields(ncclConfig_t& config) {
  const ncclConfig_t undefined = all_undefined();
  for (const Field& field : kFields) {
    if (config.version < field.since) config.*field.value = undefined.*field.value;
  }
  const auto has = [&](size_t offset, unsigned since) {
    return config.size >= offset + sizeof(const char*) && config.version >= since;
  };
  if (!has(offsetof(ncclConfig_t, netName), 21700)) config.netName = nullptr;
  if (!has(offsetof(ncclConfig_t, commName), 22700)) config.commName = nullptr;
}

std::string check_ranges(const ncclConfig_t& config) {
  for (const Field& field : kFields) {
    const int value = config.*field.value;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= field.least && value <= field.most)) continue;
    const std::string most = field.most == INT_MAX ? "" : " to " + std::to_string(field.most);
    return "config." + std::string(field.name) + " is " + std::to_string(value) + "; it may be " +
           std::to_string(field.least) + (most.empty() ? " or more" : most);
  }
  const bool both =
      config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  return both && config.minCTAs > config.maxCTAs ? "config.minCTAs is above config.maxCTAs" : "";
}

}  // namespace

std::string read_config(const ncclConfig_t* config, CommConfig& read) {
  read = {};
  if (config == nullptr) return {};
  if (config->magic != NCCL_API_MAGIC || config->size < kLeastBytes) {
    return "begin the configuration with NCCL_CONFIG_INITIALIZER";
  }
  ncclConfig_t known = all_undefined();
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  forget_newer_fields(known);
  if (std::string wrong = check_ranges(known); !wrong.empty()) return wrong;
  read.given = true;
  read.blocking = known.blocking != 0;  // undefined is blocking
  read.name = known.commName;
  const bool known_policy = known.CTAPolicy != NCCL_CONFIG_UNDEF_INT;
  if (known.minCTAs != NCCL_CONFIG_UNDEF_INT) read.least_ctas = known.minCTAs;
  if (known.maxCTAs != NCCL_CONFIG_UNDEF_INT) read.most_ctas = known.maxCTAs;
  read.without_kernels = known_policy && (known.CTAPolicy & NCCL_CTA_POLICY_ZERO) != 0;
  return {};
}

}  // namespace tutti::nccl
