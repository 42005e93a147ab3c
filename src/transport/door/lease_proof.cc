#include "src/transport/door/lease_proof.h"

#include <sodium.h>

#include <string_view>

#include "src/base/little.h"

namespace tutti::transport::door {
namespace {

constexpr std::string_view kLeaseLabel = "tutti lease 1";
constexpr size_t kMemberBytes = 20;

void put_member(uint8_t* target, const MemberId& member) {
  put_little(target, member.process.high, 8);
  put_little(target + 8, member.process.low, 8);
  put_little(target + 16, member.number, 4);
}

}  // namespace

LeaseProof prove(const JobKey& key, const LeaseClaim& claim) {
  std::array<uint8_t, 2 * kMemberBytes + 12> facts{};
  put_member(facts.data(), claim.prover);
  put_member(&facts[kMemberBytes], claim.verifier);
  put_little(&facts[2 * kMemberBytes], claim.communicator, 8);
  put_little(&facts[2 * kMemberBytes + 8], claim.epoch, 4);
  LeaseProof proof{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), proof.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kLeaseLabel.data()),
                            kLeaseLabel.size());
  crypto_generichash_update(&state, claim.binding.data(), claim.binding.size());
  crypto_generichash_update(&state, facts.data(), facts.size());
  crypto_generichash_final(&state, proof.data(), proof.size());
  sodium_memzero(&state, sizeof state);
  return proof;
}

bool proves(const LeaseProof& proof, const JobKey& key, const LeaseClaim& claim) {
  const LeaseProof expected = prove(key, claim);
  return sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

}  // namespace tutti::transport::door
