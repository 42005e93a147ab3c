// Which algorithm the settings force for a collective: TUTTI_ALGORITHM by our names, below it
// NCCL_ALGO by those of NCCL that the algorithms themselves say are theirs.
//
// Threads: a pure function. Errors: none; names that no algorithm has are refused before
// (registry::read_settings()), and what NCCL has and we do not forces nothing.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "src/base/config.h"
#include "src/select/select.h"

namespace tutti::select {

struct Force {
  std::string algorithm;  // "ring", by TUTTI_ALGORITHM also "ring:2" (lanes)
  std::string by;         // for messages: "NCCL_ALGO in /etc/nccl.conf"
};

/// By the collective's name.
using Forces = std::map<std::string, Force, std::less<>>;

/// NCCL's algorithms give results of their own, so they never stand in the way of
/// TUTTI_DETERMINISTIC.
Forces forces_of(const Config& config, std::span<const schedule::Algorithm> algorithms);

}  // namespace tutti::select
