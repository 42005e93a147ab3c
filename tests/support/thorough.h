// Tests ask here whether to be thorough, as a gate demands and an everyday run has no time for.
#pragma once

#include <cstdlib>

namespace tutti::testing_support {

/// TEST_THOROUGH=1: everything, at full length.
inline bool thorough() {
  const char* value = std::getenv("TEST_THOROUGH");
  return value != nullptr && *value == '1';
}

}  // namespace tutti::testing_support
