// How the binding says no: by the runtime layer's exception, which Python sees as one of
// tutti.errors.
#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti::python {

/// Throws kInvalidInput.
[[noreturn]] void refuse(const std::string& sentence);
/// Throws what the library says about a call that failed; does nothing after a success. `comm` may
/// be null. The kind is kInvalidInput for a refused argument, else kCommunication.
void expect_success(tuttiResult_t result, tuttiComm_t comm);

}  // namespace tutti::python
