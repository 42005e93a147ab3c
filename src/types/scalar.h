// The factor of a scaled sum, in the call's type.
//
// Threads: a value. Ownership: none of `memory`.
#pragma once

#include <array>
#include <cstddef>

namespace tutti::types {

struct Scalar {
  std::array<std::byte, 8> value{};
  const void* memory = nullptr;  // not null: the value is read there when the call begins
};

}  // namespace tutti::types
