// The values from which a rank's transports are made, and the place where the rank lives.
//
// Threads:  read-only after construction.
// Lifetime: outlives the transports made from it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/member_id.h"
#include "src/base/rdma_settings.h"
#include "src/transport/arena.h"

namespace tutti::transport {

using JobKey = std::array<uint8_t, 32>;

class Endpoint;

struct Member {
  int rank = 0;
  int ranks = 1;
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  std::string host_id;  // ranks with equal host ids share memory; TUTTI_HOST_ID overrides
  MemberId id;          // equal processes: both are threads of it
  // By rank, once all cards are read: two members that meet again share what they have in common.
  // Empty: these ranks share nothing with those of other communicators.
  std::vector<MemberId> members;
  // Of the process; null: the transports made from this have nothing in common with others.
  Endpoint* endpoint = nullptr;
  JobKey key{};  // authenticates every connection; never logged, never in a card
  const Arena* arena = nullptr;
  // For stream transports: the numeric address to listen on, and for how long a peer's host may
  // acknowledge nothing until it is taken for gone.
  std::string bind_address;
  uint64_t keepalive_ns = ~uint64_t{0};
  RdmaSettings rdma;
  uint32_t tcp_flows = 1;  // sockets of a link; 0: as many as the round trip asks for
  bool insecure = false;   // the user forgoes protection from those who reach this process's ports
};

}  // namespace tutti::transport
