// Memory that a domain has registered, found by address. Peers may write to it.
//
// Owns:     nothing (src/transport/registered_ranges.h).
// Threads:  any. Errors: those of CardMemory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "src/base/status.h"
#include "src/transport/registered_ranges.h"

namespace tutti::transports::verbs {

class Domain;

/// By which a card finds registered memory, here and for peers.
struct RangeKeys {
  uint32_t local = 0;
  uint32_t remote = 0;
};

using RegisteredRanges = transport::RegisteredRanges<RangeKeys>;

/// The range is known for as long as what this returns lives.
Result<std::shared_ptr<const void>> register_range(RegisteredRanges& ranges,
                                                   std::shared_ptr<Domain> domain, void* memory,
                                                   size_t bytes);

}  // namespace tutti::transports::verbs
