// A call that somebody asks about by its name, as tuttiExplain and `tutti explain` do. Nothing
// runs.
// Threads: a value.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/comm/communicator.h"

namespace tutti::operation {

/// A call with memory that nobody knows yet. Where it is between two ranks, these are the one that
/// asks and the next; where each rank has a share, all are equal.
struct Question {
  comm::Communicator* communicator = nullptr;
  std::string_view call;
  uint64_t count = 0;  // of the longest share, where each rank has one of its own
  types::DataType type = types::DataType::kUint8;

  /// The other rank of a call of two.
  uint32_t next_rank() const {
    return static_cast<uint32_t>((communicator->rank() + 1) % communicator->ranks());
  }
  uint64_t bytes() const { return count * types::size_of(type); }
};

}  // namespace tutti::operation
