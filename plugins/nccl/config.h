// ncclConfig_t of any version, read.
//
// The struct has grown at the end since 2.14: a caller's may be shorter or longer than ours, and
// fields that its version did not have yet hold whatever the caller left there.
//
// Errors: ncclInvalidArgument, with the field and what it may be.
#pragma once

#include "plugins/nccl/abi.h"

namespace tutti::nccl {

/// What Tutti takes from a configuration. The rest (thread blocks, clusters, networks, policies) is
/// checked, because a program that runs here should run on NCCL, and has no effect.
struct CommConfig {
  bool given = false;  // false: NULL was passed
  bool blocking = true;
  const char* name = nullptr;
};

ncclResult_t read_config(const ncclConfig_t* config, const char* function, CommConfig& read);

}  // namespace tutti::nccl
