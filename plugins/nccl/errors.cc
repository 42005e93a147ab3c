#include "plugins/nccl/errors.h"

#include <mutex>
#include <utility>

namespace tutti::nccl {
namespace {

struct LastMessage {
  std::mutex mutex;
  std::string text;
};

LastMessage& last() {
  // tidy: allow mutable (NCCL's last error belongs to the process)
  static auto* const last = new LastMessage;
  return *last;
}

}  // namespace

ncclResult_t fail(ncclResult_t result, std::string message) {
  const std::lock_guard lock(last().mutex);
  last().text = std::move(message);
  return result;
}

ncclResult_t refuse(const char* function, const std::string& why) {
  return fail(ncclInvalidArgument, std::string(function) + ": " + why);
}

ncclResult_t misuse(const char* function, const std::string& why) {
  return fail(ncclInvalidUsage, std::string(function) + ": " + why);
}

ncclResult_t unsupported(const char* function, const std::string& why) {
  return fail(ncclInvalidUsage, std::string(function) + " is not supported: " + why);
}

ncclResult_t translate(tuttiResult_t result) {
  if (result == tuttiSuccess) return ncclSuccess;
  if (result == tuttiInProgress) return ncclInProgress;
  // NCCL has no word for it; clients know what to do about wrong usage.
  const auto code =
      result == tuttiUnsupported ? ncclInvalidUsage : static_cast<ncclResult_t>(result);
  return fail(code, tuttiGetLastError(nullptr));
}

std::string last_message() {
  const std::lock_guard lock(last().mutex);
  return last().text;
}

}  // namespace tutti::nccl
