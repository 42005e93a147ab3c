// Proves, over a connection of two members that some communicator's key has made, that one end of
// it holds another communicator's key as well.
//
// The connection's binding holds fresh nonces of both ends, so a proof is worth nothing elsewhere;
// the order of the two members keeps it from being sent back as the other one's.
//
// Threads: pure. Errors: none. Comparisons take constant time.
#pragma once

#include <array>
#include <cstdint>

#include "src/base/member_id.h"
#include "src/transport/door/handshake.h"
#include "src/transport/member.h"

namespace tutti::transport::door {

using LeaseProof = std::array<uint8_t, 32>;

/// The facts that a proof is about.
struct LeaseClaim {
  Binding binding{};
  MemberId prover;
  MemberId verifier;
  uint64_t communicator = 0;
  uint32_t epoch = 0;
};

LeaseProof prove(const JobKey& key, const LeaseClaim& claim);
bool proves(const LeaseProof& proof, const JobKey& key, const LeaseClaim& claim);

}  // namespace tutti::transport::door
