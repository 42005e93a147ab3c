#include "src/transport/door/lease_proof.h"

#include <gtest/gtest.h>

namespace tutti::transport::door {
namespace {

LeaseClaim some_claim() {
  LeaseClaim claim;
  claim.binding.fill(3);
  claim.prover = {{1, 2}, 0};
  claim.verifier = {{3, 4}, 1};
  claim.communicator = 77;
  claim.epoch = 5;
  return claim;
}

TEST(LeaseProof, HoldsForWhatItWasMadeForAlone) {
  JobKey key{}, other_key{};
  other_key[31] = 1;
  const LeaseClaim claim = some_claim();
  const LeaseProof proof = prove(key, claim);
  EXPECT_TRUE(proves(proof, key, claim));
  EXPECT_FALSE(proves(proof, other_key, claim));
  std::array<LeaseClaim, 7> others;
  others.fill(claim);
  others[0].binding[31] ^= 1;
  others[1].prover.number = 1;
  others[2].prover.process.high ^= 1;
  others[3].verifier.process.low ^= 1;
  others[4].communicator += 1;
  others[5].epoch += 1;
  std::swap(others[6].prover, others[6].verifier);  // sent back to whoever made it
  for (const LeaseClaim& other : others) EXPECT_FALSE(proves(proof, key, other));
}

}  // namespace
}  // namespace tutti::transport::door
