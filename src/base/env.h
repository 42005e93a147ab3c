// The world as it is handed to a part of Tutti: configuration, log, chance and time.
//
// Owns: nothing; everything outlives its users. Threads: as the parts say. Lifetime: made by
// whoever makes communicators; tests and the simulator make their own.
#pragma once

#include <cstdint>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/log.h"
#include "src/base/prng.h"

namespace tutti {

struct Env {
  const Config* config = nullptr;
  Logger* log = nullptr;
  Prng* random = nullptr;              // no secrets are made from it
  uint64_t (*now_ns)() = monotonic_ns;
};

}  // namespace tutti
