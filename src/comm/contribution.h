// The input of a scaled sum. Such a sum is the sum of what every rank has multiplied beforehand:
// one rounding more, the same for every algorithm, and no rank needs to know another's scalar.
//
// Owns: memory for scaled inputs, which grows. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/comm/request.h"

namespace tutti::comm {

class Contribution {
 public:
  /// The request whose sum is the scaled one: its input will lie in the output of an all_reduce,
  /// which is reduced in place there, else in memory of this object's. Nothing is written yet.
  Request place(const Request& request, uint64_t elements);
  /// Multiplies so many elements of `request`'s input into that of place()'s `placed`.
  static void scale(const Request& request, const Request& placed, uint64_t elements);

 private:
  std::unique_ptr<std::byte[]> memory_;
  uint64_t capacity_ = 0;
};

}  // namespace tutti::comm
