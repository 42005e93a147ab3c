// The bytes that a call moves whose plans have shared places (plan/shared_places.h), where a switch
// between devices folds, so that it can be priced beside others.
//
// Threads: pure. Errors: none.
#pragma once

#include "src/schedule/algorithm.h"
#include "src/select/level_prices.h"

namespace tutti::select {

/// The calls of an engine that may have shared places. Equal on all ranks.
struct Sharing {
  std::function<bool(const schedule::Algorithm&)> can;  // whose plans can have them
  LevelPrices* prices = nullptr;                        // by the link of the switch
  bool must = false;  // those that can do, and go before others, whatever is predicted
};

/// `usage`, of an exchange among `ranks`, with what moves instead. Steps, messages and frames are
/// the same.
Usage shared_use(Usage usage, int ranks);

}  // namespace tutti::select
