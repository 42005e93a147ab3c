// A problem of the reference as a call of the public API.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/reference/reference.h"

namespace tutti::random_calls {

/// One side of a v-collective, as the caller of the library passes it; gone as soon as it returns.
struct Vectors {
  Vectors(const reference::Problem& problem, bool output, int rank);

  std::vector<size_t> counts, places;
  const size_t* offsets;  // null: packed
};

tuttiResult_t issue(const reference::Problem& problem, const void* send, void* recv,
                    tuttiComm_t comm, tuttiStream_t stream);

/// Blocking, and without the options that the communicator's functions have.
tuttiResult_t run_plainly(const tuttiCall_t& call, tuttiComm_t comm);

/// A problem as a value to submit; `problem` and buffers are the caller's.
class CallValue {
 public:
  CallValue(const reference::Problem& problem, int rank, const void* send, void* recv);
  CallValue(const CallValue&) = delete;
  CallValue& operator=(const CallValue&) = delete;

  const tuttiCall_t& call() const { return call_; }

 private:
  Vectors sends_, receives_;
  tuttiCall_t call_ = TUTTI_CALL_INITIALIZER;
};

}  // namespace tutti::random_calls
