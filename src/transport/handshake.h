// Proves, over a fresh socket, that both ends hold the job's key and agree on who they are.
//
// Wire: HELLO {magic, version, nonce, rank, peer, communicator, epoch, purpose} both ways, then
// MAC(key, direction | hello of the connecting side | hello of the accepting side) both ways, compared in
// constant time. Nothing else is read before that. Payloads that follow are not encrypted.
//
// Errors: kRemoteError names what differed. Threads: blocking, bounded by the deadline. Ownership: the
// socket stays the caller's.
#pragma once

#include <cstdint>

#include "src/base/status.h"
#include "src/transport/member.h"

namespace tutti::transport {

enum class Purpose : uint32_t { kRendezvous = 1, kShm = 2, kTcp = 3 };

struct Identity {
  int32_t rank = -1;
  int32_t peer = -1;  // -1: whoever calls (the accepting side before it knows)
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  Purpose purpose = Purpose::kRendezvous;
};

inline constexpr uint32_t kWireVersion = 1;
inline constexpr size_t kHelloBytes = 72;

/// The connecting side: knows whom it wants.
Status handshake_connect(int fd, const JobKey& key, const Identity& self, uint64_t deadline_ns);

/// The accepting side: returns the rank that called.
Result<int> handshake_accept(int fd, const JobKey& key, const Identity& self, uint64_t deadline_ns);

}  // namespace tutti::transport
