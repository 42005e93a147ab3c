// The bytes that a call of devices moves otherwise than its algorithm says, so that both can be
// priced: where its plans have shared places (plan/shared_places.h), since a switch between devices
// folds, and where ranks read each other's registered memory.
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

/// `usage`, of a call among `ranks` that read each other's memory: nothing is copied into rings,
/// and at the end all wait for all once more.
Usage direct_use(Usage usage, int ranks);
/// `usage`, of an exchange among `ranks`, with what moves instead. Steps, messages and frames are
/// the same.
Usage shared_use(Usage usage, int ranks);

}  // namespace tutti::select
