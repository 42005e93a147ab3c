// A better model from how long calls have taken.
//
// A group of equal calls says something of one number where, by the model, that number makes up
// most of the time: latency of a level where messages wait for each other, or its rate where bytes
// do. The median of the calls, less everything else, is laid to its account. The median
// of all groups that say something of a number counts, and moves it by at most a factor: one run on
// a busy machine does not throw a model over. Where memory is mapped, and where the network's
// description bounds a link, nothing is changed.
//
// Threads: pure but for the prices. Errors: none. Units: nanoseconds, bytes.
#pragma once

#include <optional>
#include <span>

#include "src/select/level_prices.h"

namespace tutti::select {

/// Calls that were equal.
struct Measured {
  const schedule::Algorithm* algorithm = nullptr;
  schedule::Parameters parameters;
  double count_bytes = 0;
  uint32_t calls = 0;
  double median_ns = 0;
};

inline constexpr uint32_t kLeastCalls = 5;  // of a group that counts
inline constexpr double kMostChange = 4;    // of a number at once, either way

/// Nothing where no number is known better.
std::optional<Model> refit(const Model& model, LevelPrices& prices,
                           std::span<const Measured> measured);

}  // namespace tutti::select
