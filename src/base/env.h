// The world as it is handed to a part of Tutti: configuration, log and time.
//
// Owns: nothing; everything outlives its users. Threads: as the parts say. Lifetime: made by
// whoever makes communicators; tests make their own.
#pragma once

#include <cstdint>

#include "src/base/clock.h"
#include "src/base/config.h"
#include "src/base/log.h"

namespace tutti {

struct Env {
  const Config* config = nullptr;
  Logger* log = nullptr;
  uint64_t (*now_ns)() = monotonic_ns;
};

}  // namespace tutti
