// Tutti's results as exceptions that c10d and its users know.
//
// Errors: everything here throws. Threads: no state.
#pragma once

#include <c10/util/Exception.h>

#include <chrono>
#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti_torch {

/// Python sees a DistBackendError. `result` tells a timeout from the death of a peer.
class CallError : public c10::DistBackendError {
 public:
  CallError(tuttiResult_t result, const std::string& text);
  tuttiResult_t result;
};

/// Throws unless the result is tuttiSuccess. `what` is what was called ("all_reduce of group 0"),
/// `comm` the communicator that has the sentence; null: this thread's last error. `timeout` is
/// named where the result is a timeout.
void check(tuttiResult_t result, const std::string& what, tuttiComm_t comm,
           std::chrono::milliseconds timeout);

/// "rank 2", "ranks 0, 2".
std::string listed(const std::vector<int>& ranks);

/// The last sentence that Tutti has for this communicator, or for this thread.
std::string last_sentence(tuttiComm_t comm);

}  // namespace tutti_torch
