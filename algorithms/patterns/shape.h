// How most algorithms cut their buffers: one block a lane in every count of elements.
#pragma once

#include <cstdint>

#include "src/schedule/algorithm.h"

namespace tutti::algorithms::patterns {

/// Lanes, as many as a plan can have.
inline constexpr uint16_t kMostLanes = 8;

/// Block i * lanes + k is lane k's part of the i-th count, in input and output.
template <schedule::Collective kCollective>
schedule::Shape shape_of(const schedule::Parameters& p) {
  const schedule::Traits& traits = schedule::traits_of(kCollective);
  const auto cut = [&](const schedule::BufferShape& buffer) {
    if (buffer.holder == schedule::Holder::kNobody) return schedule::Partition{};
    const auto counts = static_cast<uint32_t>(buffer.parts ? p.ranks : 1);
    return schedule::Partition::equal(counts * p.lanes);
  };
  return {.collective = kCollective,
          .ranks = p.ranks,
          .root = p.root,
          .lanes = p.lanes,
          .input = cut(traits.input),
          .output = cut(traits.output)};
}

}  // namespace tutti::algorithms::patterns
