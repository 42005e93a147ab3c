// Why a group cannot go on, as its ranks tell each other: in arenas (Counter::lost) and in notes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace tutti::exec {

/// A rank's process is gone, or it gave up because of another one (or of itself).
struct Loss {
  int rank = -1;
  int cause = -1;  // -1: it is gone

  /// Never 0.
  uint64_t word() const {
    return static_cast<uint64_t>(rank + 1) << 32 | static_cast<uint64_t>(cause + 1);
  }
  static std::optional<Loss> read(uint64_t word, size_t ranks) {
    const uint64_t rank = word >> 32, cause = word & 0xffffffff;
    if (rank == 0 || rank > ranks || cause > ranks) return std::nullopt;
    return Loss{static_cast<int>(rank) - 1, static_cast<int>(cause) - 1};
  }
  bool operator==(const Loss&) const = default;
};

}  // namespace tutti::exec
