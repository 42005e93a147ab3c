// Memory that the cards of a rank read and write: each has a registration of its own, since a key
// is of one domain.
//
// Owns:     registrations, not the memory. It is shared with a forked child, or the caller's.
// Threads:  any. Errors: those of CardMemory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/rdma_settings.h"
#include "src/base/status.h"
#include "src/transport/device_range.h"
#include "src/transport/registered_ranges.h"
#include "src/transport/stream/frame.h"

namespace tutti::transports::verbs {

class CardMemory;
class Domain;

/// Of a rank's payloads, as transport::Transport::MovedBytes.
struct MovedCounts {
  std::atomic<uint64_t> by_cards{0};
  std::atomic<uint64_t> by_processor{0};
};

/// Those of the ports that a rank uses, in the order in which peers know them.
using Domains = std::vector<std::shared_ptr<Domain>>;

/// By which each card finds registered memory, here and for peers.
struct RangeKeys {
  std::array<uint32_t, kMostRdmaRails> local{};
  std::array<uint32_t, kMostRdmaRails> remote{};
  size_t rails = 0;
};

/// The form in which keys go to a peer, and the one that counts at a port of the peer's.
transport::stream::MemoryKey key_of(const RangeKeys& keys);
uint32_t read_key(const transport::stream::MemoryKey& key, size_t rail);

/// Memory that all cards know.
class RailMemory {
 public:
  static Result<std::unique_ptr<RailMemory>> create(const Domains& domains, void* memory,
                                                    size_t bytes, int access);
  static Result<std::unique_ptr<RailMemory>> create(const Domains& domains,
                                                    const transport::DeviceRange& memory,
                                                    int access);
  ~RailMemory();
  RailMemory(const RailMemory&) = delete;
  RailMemory& operator=(const RailMemory&) = delete;

  const RangeKeys& keys() const { return keys_; }

 private:
  RailMemory() = default;
  void add(std::unique_ptr<CardMemory> registration);

  std::vector<std::unique_ptr<CardMemory>> registrations_;
  RangeKeys keys_;
};

/// Pages of this process that all cards know, and nobody else's.
class CardPages {
 public:
  static Result<std::unique_ptr<CardPages>> create(const Domains& domains, size_t bytes);
  ~CardPages();
  CardPages(const CardPages&) = delete;
  CardPages& operator=(const CardPages&) = delete;

  std::byte* data() const { return memory_; }
  uint32_t local_key(size_t rail) const { return registration_->keys().local[rail]; }

 private:
  CardPages(std::byte* memory, size_t bytes) : memory_(memory), bytes_(bytes) {}

  std::byte* const memory_;
  const size_t bytes_;
  std::unique_ptr<RailMemory> registration_;
};

using RegisteredRanges = transport::RegisteredRanges<RangeKeys>;

/// The things that the pipes of a transport have in common.
struct PipeGround {
  Domains domains;
  std::shared_ptr<RegisteredRanges> ranges;
  std::shared_ptr<MovedCounts> moved;
};

/// Peers may write to the range, and read it, for as long as what this returns lives.
Result<std::shared_ptr<const void>> register_range(RegisteredRanges& ranges, const Domains& domains,
                                                   void* memory, size_t bytes);

}  // namespace tutti::transports::verbs
