// Which failures of calls mean that a member is lost, so that the others may go on without it.
#pragma once

#include "tutti/tutti.h"

namespace tutti::runtime {

/// Any other failure is a mistake of the caller or of this rank's machine.
inline bool is_loss(tuttiResult_t result) {
  return result == tuttiRemoteError || result == tuttiTimeout || result == tuttiSystemError;
}

}  // namespace tutti::runtime
