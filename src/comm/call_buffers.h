// Where the buffers of a call lie, and how peers can reach them.
//
// Threads: one. Lifetime: within what it is given. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "src/comm/membership.h"
#include "src/comm/memory_table.h"
#include "src/comm/planner.h"
#include "src/comm/request.h"

namespace tutti::comm {

/// Whether and where a call's buffers are one: `recv` lies `offset` bytes behind `send`.
struct BufferDistance {
  bool possible = false;
  uintptr_t offset = 0;  // modulo 2^64
  bool holds(const Request& request) const {
    const auto send = reinterpret_cast<uintptr_t>(request.send);
    return possible && reinterpret_cast<uintptr_t>(request.recv) - send == offset;
  }
};

/// As far as it says how long the buffers of a rank are.
schedule::Shape shape_of_buffers(const Request& request, int ranks);

class CallBuffers {
 public:
  /// `single_copy_bytes`: from here on peers read each other's ordinary memory, where all can; 0:
  /// never; none: long calls that only copy may, and whoever plans them weighs it.
  CallBuffers(const Membership& membership, MemoryTable& memory,
              std::optional<uint64_t> single_copy_bytes);

  BufferDistance placement_of(const Request& request) const;
  bool is_in_place(const Request& request) const { return placement_of(request).holds(request); }
  /// Of all ranks' shares.
  uint64_t output_bytes(const Request& request) const;
  /// Through staging, whatever memory is registered.
  bool is_always_staged(uint64_t output_bytes) const;
  /// Equal on all ranks of the domain. Where it says so, the call uses registered memory until
  /// end_use().
  BufferReach reach_of(const Request& request);
  void end_use() { memory_.end_use(); }
  /// For people: why peers do not read each other's ordinary memory though they would.
  std::string why_not_read() const;
  uint64_t send_elements(const Request& request) const;

 private:
  bool use_registered(const Request& request);
  bool may_read(const Request& request, uint64_t output_bytes) const;

  const Membership& membership_;
  MemoryTable& memory_;
  const std::optional<uint64_t> single_copy_bytes_;
  const bool direct_;       // all ranks of the domain are threads of this process
  const bool reads_peers_;  // single copy is possible and wanted
};

}  // namespace tutti::comm
