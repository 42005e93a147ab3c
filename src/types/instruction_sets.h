// Runs code once per set of instructions that the kernels are compiled for and this processor has.
//
// Only tests include this. Threads: one at a time, for the choice is the whole program's.
#pragma once

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::types {

/// From the best set to plain C++. `body` must look its kernels up itself.
template <class Body>
void for_each_instruction_set(const Body& body) {
  for (const int64_t disabled : std::vector<int64_t>{0, HWY_AVX3, HWY_AVX3 | HWY_AVX2}) {
    SCOPED_TRACE("disabled instruction sets: " + std::to_string(disabled));
    hwy::DisableTargets(disabled);
    body();
  }
  hwy::DisableTargets(0);
}

}  // namespace tutti::types
