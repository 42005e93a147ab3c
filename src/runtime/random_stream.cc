#include "tutti/runtime/random_stream.h"

#include <limits>

#include "src/runtime/fingerprint.h"
#include "src/runtime/index.h"
#include "src/runtime/refuse.h"

namespace tutti::runtime {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kFirst = 0xD2511F53, kSecond = 0xCD9E8D57;
  constexpr uint32_t kGolden = 0x9E3779B9, kRoot3 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t first = kFirst * counter[0], second = kSecond * counter[2];
    counter = {
        static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
        static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += kGolden;
    key[1] += kRoot3;
  }
  return counter;
}

RandomStream::RandomStream(uint64_t seed, int64_t step, int64_t sample, int64_t layer) {
  require(step >= 0 && sample >= 0, "step ", step, " and sample ", sample, " must be 0 or more");
  require(layer >= 0 && layer <= std::numeric_limits<uint32_t>::max(), "layer ", layer,
          " is not between 0 and 2^32 - 1");
  Fingerprint print;
  print.add(static_cast<int64_t>(seed));
  print.add(step);
  key_ = {static_cast<uint32_t>(print.value()), static_cast<uint32_t>(print.value() >> 32)};
  counter_ = {0, static_cast<uint32_t>(layer), static_cast<uint32_t>(sample),
              static_cast<uint32_t>(static_cast<uint64_t>(sample) >> 32)};
}

uint32_t RandomStream::next() {
  if (used_ == 4) {
    require(!is_over_, "a stream has 2^34 numbers; begin another one, of another layer");
    block_ = philox4x32(counter_, key_);
    is_over_ = ++counter_[0] == 0;
    used_ = 0;
  }
  return block_[at(used_++)];
}

void RandomStream::dropout_mask(float probability, std::span<float> mask) {
  require(probability >= 0 && probability < 1, "a probability of ",
          static_cast<double>(probability), " is not between 0 and 1");
  const float kept = 1 / (1 - probability);
  for (float& value : mask) value = uniform() < probability ? 0 : kept;
}

}  // namespace tutti::runtime
