// ncclCollConfig_t of any version, read: what it says of one call.
//
// Errors: ncclInvalidArgument, with the field or the option and what it may be.
#pragma once

#include "plugins/nccl/abi.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

/// What Tutti takes from the configuration of a call. The rest speaks of thread blocks, clusters,
/// profilers and kernels, and has no effect.
struct CallConfig {
  bool given = false;  // false: nothing is asked of Tutti; the call is as one without configuration
  tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;  // its text is the caller's
};

ncclResult_t read_call_config(const ncclCollConfig_t* config, const char* function,
                              CallConfig& read);

}  // namespace tutti::nccl
