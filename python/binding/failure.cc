#include "failure.h"

#include "tutti/runtime/error.h"

namespace tutti::python {

using runtime::Error;
using runtime::ErrorKind;

void refuse(const std::string& sentence) { throw Error(ErrorKind::kInvalidInput, sentence); }

void expect_success(tuttiResult_t result, tuttiComm_t comm) {
  if (result == tuttiSuccess) return;
  // The thread's own message is the newer one; that of the communicator is there for calls which
  // failed in a thread of the library.
  std::string why = tuttiGetLastError(nullptr);
  if (why.empty() && comm != nullptr) why = tuttiGetLastError(comm);
  if (why.empty()) why = tuttiGetErrorString(result);
  throw Error(result == tuttiInvalidArgument ? ErrorKind::kInvalidInput : ErrorKind::kCommunication,
              why, result);
}

}  // namespace tutti::python
