// Memory that a domain has registered once and for all, found by address: windows, and buffers that
// users have registered. Peers may write to it.
//
// Owns:     nothing: a registration lives as long as what add() returned.
// Threads:  any. Errors: those of CardMemory.
// Lifetime: a range ends before its memory does, and when no peer writes to it any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "src/base/status.h"

namespace tutti::transports::verbs {

class Domain;

/// By which a card finds registered memory, here and for peers.
struct RangeKeys {
  uint32_t local = 0;
  uint32_t remote = 0;
};

class RegisteredRanges : public std::enable_shared_from_this<RegisteredRanges> {
 public:
  /// Ranges may overlap.
  Result<std::shared_ptr<const void>> add(std::shared_ptr<Domain> domain, void* memory,
                                          size_t bytes);
  /// Of the range that holds all of these bytes.
  std::optional<RangeKeys> find(const void* memory, uint64_t bytes) const;

 private:
  struct KnownRange {
    size_t bytes = 0;
    RangeKeys keys;
  };
  class Entry;
  using Ranges = std::multimap<uintptr_t, KnownRange>;  // by address

  mutable std::mutex mutex_;
  Ranges ranges_;
  size_t longest_ = 0;  // ever
};

}  // namespace tutti::transports::verbs
