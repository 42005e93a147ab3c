// For tests of outer optimizers: the inner steps of a rank, which references repeat.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace tutti::runtime::outer_test {

/// Parameters to begin with.
inline std::vector<float> start(size_t count) {
  std::vector<float> params(count);
  for (size_t i = 0; i < count; ++i) params[i] = static_cast<float>(i % 17) / 8 - 1;
  return params;
}

/// A step towards a place of the rank's own, with some noise that is a function of all arguments.
inline void inner_step(int rank, int64_t step, std::vector<float>& params) {
  uint64_t state = static_cast<uint64_t>(rank) * 1000003 + static_cast<uint64_t>(step) + 12345;
  for (size_t i = 0; i < params.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const float noise = static_cast<float>(static_cast<int32_t>(state >> 32)) * 0x1p-31f;
    const float goal = static_cast<float>(rank + 1) * 0.25f + static_cast<float>(i % 5);
    params[i] = params[i] - 0.0625f * (params[i] - goal) + 0.03125f * noise;
  }
}

/// `tolerance` is relative to 1 and the value; 0: equal.
inline bool same(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const float room = tolerance * (1 + std::fabs(b[i]));
    if (!(std::fabs(a[i] - b[i]) <= room)) return false;
  }
  return true;
}

}  // namespace tutti::runtime::outer_test
