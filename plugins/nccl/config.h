// ncclConfig_t of any version, read.
//
// The struct has grown at the end since 2.14: a caller's may be shorter or longer than ours, and
// fields that its version did not have yet hold whatever the caller left there.
//
// Errors: a sentence with the field and what it may be. Depends on nothing of the library, so that
//         tests can give it any bytes.
#pragma once

#include <string>

#include "plugins/nccl/abi.h"

namespace tutti::nccl {

/// The options that Tutti takes from a configuration. The rest (clusters, networks) is checked,
/// because a program that runs here should run on NCCL, and has no effect.
struct CommConfig {
  bool given = false;  // false: NULL was passed
  bool blocking = true;
  const char* name = nullptr;
  bool without_kernels = false;  // NCCL_CTA_POLICY_ZERO: a wish, as with NCCL
  int least_ctas = 0;            // minCTAs; 0: not said
  int most_ctas = 0;             // maxCTAs
};

/// A text that says what is wrong with the configuration; empty: nothing is, and `read` is set.
std::string read_config(const ncclConfig_t* config, CommConfig& read);

}  // namespace tutti::nccl
