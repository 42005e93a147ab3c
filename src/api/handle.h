// What stands behind the opaque handles of tutti.h.
//
// Lifetime: a destroyed communicator's shell stays (a few dozen bytes), so that a stale handle is
// an error and not a crash.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "include/tutti/tutti.h"
#include "src/base/status.h"
#include "src/comm/communicator.h"
#include "src/comm/engine.h"

struct tuttiComm {
  static constexpr uint32_t kAlive = 0x74757469;

  std::atomic<uint32_t> state{0};
  std::unique_ptr<tutti::comm::Communicator> communicator;
  std::string last_error;
};

namespace tutti::api {

/// The handle of a HOST stream.
struct HostStream {
  std::shared_ptr<comm::Completion> completion = std::make_shared<comm::Completion>();
};

/// A C caller may pass any integer as an enumeration; reading it as one would be undefined.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

tuttiResult_t result_of(Code code);

/// Keeps the message for tuttiGetLastError and returns the code. `comm` may be null.
tuttiResult_t report(tuttiComm* comm, const Status& status);
const char* last_error(tuttiComm* comm);

Status check_handle(tuttiComm_t comm);

}  // namespace tutti::api
