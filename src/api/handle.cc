#include "src/api/handle.h"

namespace tutti::api {
namespace {

std::string& thread_error() {
  // tidy: allow mutable (the C API reports the last error of a thread)
  thread_local std::string message;
  return message;
}

}  // namespace

tuttiResult_t result_of(Code code) {
  switch (code) {
    case Code::kOk:
      return tuttiSuccess;
    case Code::kInvalidArgument:
      return tuttiInvalidArgument;
    case Code::kInvalidUsage:
      return tuttiInvalidUsage;
    case Code::kSystemError:
      return tuttiSystemError;
    case Code::kInternalError:
      return tuttiInternalError;
    case Code::kRemoteError:
      return tuttiRemoteError;
    case Code::kTimeout:
      return tuttiTimeout;
    case Code::kUnsupported:
      return tuttiUnsupported;
    case Code::kInProgress:
      return tuttiInProgress;
  }
  return tuttiInternalError;
}

tuttiResult_t report(tuttiComm* comm, const Status& status) {
  if (status.ok()) return tuttiSuccess;
  thread_error() = status.message();
  if (comm != nullptr) comm->last_error = status.message();
  return result_of(status.code());
}

const char* last_error(tuttiComm* comm) {
  return comm == nullptr ? thread_error().c_str() : comm->last_error.c_str();
}

Status check_handle(tuttiComm_t comm) {
  if (comm == nullptr) return Status::invalid_argument("the communicator is null");
  if (comm->state.load(std::memory_order_relaxed) != tuttiComm::kAlive) {
    return Status::invalid_usage("the communicator has been destroyed, or is none");
  }
  return {};
}

}  // namespace tutti::api
