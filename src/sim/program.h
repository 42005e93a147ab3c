// The program of a simulated rank: its plan, as match() and bind() make it, and what of it matters
// to time.
//
// Two ranks run equal programs if their micro-operations are equal but for the names of their
// peers: the skeletons, a hash, are equal then, and the references name the peers in the order of
// the program. Where bytes lie is left out, since it costs no time.
//
// Threads: pure. Errors: those of match(); an algorithm that cannot be lowered.
#pragma once

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "src/plan/bind.h"
#include "src/plan/match.h"
#include "src/sim/network.h"

namespace tutti::sim {

/// The call that is simulated.
struct Job {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Parameters parameters;
  plan::Mode mode = plan::Mode::kStaged;
  bool in_place = false;
  plan::BindRequest request;
  plan::Tuning tuning;
  uint32_t calls = 1;  // one after the other
  plan::LevelEncodings wire = {};
};

/// Makes the plans of ranks, one after the other. For ranks of one host that are asked for in a row
/// the things that they have in common are worked out once. Threads: one.
class Lowering {
 public:
  Lowering(const Job& job, group::GroupPointer group) : job_(job), group_(std::move(group)) {}
  Result<plan::Plan> plan(int rank);

 private:
  const Job& job_;
  const group::GroupPointer group_;
  std::unique_ptr<plan::HostMatch> host_;  // of the last rank
  uint32_t number_ = 0;                    // of that host
};

/// Whether the library would run it: the plans can be made, and their frames fit the ring. By the
/// plan of one rank of the largest host.
bool fits(const Job& job, const group::GroupPointer& group);

/// A micro-operation that names a peer.
enum class ReferenceKind : uint8_t { kSend, kReceive, kOther };
struct Reference {
  uint32_t op = 0;  // counted through prologue, lanes and epilogue
  uint32_t peer = 0;
  uint8_t lane = 0;
  ReferenceKind kind = ReferenceKind::kOther;
};

struct RankProgram {
  uint64_t skeleton = 0;
  std::vector<Reference> references;
};

RankProgram program_of(const plan::Plan& plan, int rank, const Network& network);

/// For every kSend and kReceive of a program, in the order of its references: the op of the peer's
/// program at which the same message arrives or is sent. The k-th message of a channel is the k-th
/// on both sides. kNoMate: the peer does not know of it.
inline constexpr uint32_t kNoMate = ~0u;
class Mates {
 public:
  Mates(int rank, const RankProgram& program);
  /// The op of the peer `other`, for the reference `index` of a program of `rank`.
  uint32_t mate_in(const Mates& other, const RankProgram& mine, uint32_t index) const;

 private:
  struct MateMessage {
    uint32_t peer;
    uint8_t lane;
    bool sends;
    uint32_t ordinal;  // of its channel
    uint32_t op;
    auto key() const { return std::tuple(peer, lane, sends, ordinal); }
  };
  int rank_;
  std::vector<MateMessage> sorted_;
  std::vector<uint32_t> ordinals_;  // by reference
};

/// Mixes a word into a hash.
uint64_t mix(uint64_t hash, uint64_t word);

}  // namespace tutti::sim
