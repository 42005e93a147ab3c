// The values from which a rank's transports are made, and the place where the rank lives.
//
// Threads:  read-only after construction.
// Lifetime: outlives the transports made from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/base/member_id.h"
#include "src/base/rdma_settings.h"
#include "src/transport/arena.h"

namespace tutti::transport {

using JobKey = std::array<uint8_t, 32>;

class Endpoint;

/// The way to a peer as a description of the network has it, or as it was measured before this
/// communicator is made; 0: nobody knows.
struct PathRates {
  double latency_ns = 0;  // one way
  double bytes_per_ns = 0;
  double seen_bytes_per_ns = 0;  // that something has moved there; more may fit
};

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
  std::vector<std::string> near_cards;         // RDMA cards nearest to its device; empty: not known
  std::function<PathRates(int peer)> path_to;  // empty: nothing is known
  uint32_t tcp_flows = 1;  // sockets of a link; 0: as many as the way to the peer asks for
  bool insecure = false;   // the user forgoes protection from those who reach this process's ports
};

/// Of a member that may know none.
inline PathRates path_between(const Member& member, int peer) {
  return member.path_to ? member.path_to(peer) : PathRates();
}

}  // namespace tutti::transport
