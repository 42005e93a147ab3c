// A problem of the reference as a call of the public API.
#pragma once

#include "tests/reference/reference.h"

namespace tutti::random_calls {

tuttiResult_t issue(const reference::Problem& problem, const void* send, void* recv,
                    tuttiComm_t comm, tuttiStream_t stream);

}  // namespace tutti::random_calls
