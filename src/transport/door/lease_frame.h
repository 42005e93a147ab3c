// The words that two members say of a communicator on a connection that they share among several:
// one frame each, between the frames of messages.
//
//   bytes  0..2 "TUC"   3 word   4 flags (1: the sender lacks the receiver's proof)   5..7 zero
//         8..15 communicator   16..19 epoch   20..23 zero   24..55 proof (of PROOF, else zero)
//
//   PROOF  the sender holds the communicator's key, and has a link of it.
//   OVER   the sender's link of the communicator has ended: nothing of it follows.
//   GONE   the answer to a PROOF: there is no such link, or no more.
//   USE    the frames of messages that follow are of the sender's link of this communicator, until
//          the next USE. Before the first one there are none.
//
// Threads: pure. Errors: decode_lease() gives nothing for bytes that encode() did not make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "src/transport/door/lease_proof.h"

namespace tutti::transport::door {

enum class LeaseWord : uint8_t { kProof = 1, kOver = 2, kGone = 3, kUse = 4 };

struct LeaseFrame {
  LeaseWord word = LeaseWord::kProof;
  bool lacks_proof = false;
  uint64_t communicator = 0;
  uint32_t epoch = 0;
  LeaseProof proof{};
};

inline constexpr size_t kLeaseFrameBytes = 56;
using LeaseFrameBytes = std::array<std::byte, kLeaseFrameBytes>;

LeaseFrameBytes encode(const LeaseFrame& frame);
/// Whether a frame that begins so is one of these; at least four bytes.
bool is_lease_frame(std::span<const std::byte> start);
std::optional<LeaseFrame> decode_lease(std::span<const std::byte, kLeaseFrameBytes> bytes);

}  // namespace tutti::transport::door
