#include "plugins/nccl/errors.h"

#include <mutex>
#include <set>
#include <utility>

#include "plugins/nccl/forks.h"
#include "tutti/plugin.h"

namespace tutti::nccl {
namespace {

/// Under the process's mutex, also while it is made.
struct Messages {
  std::string last;
  std::set<std::string> logged;
};

Messages& messages() {
  // tidy: allow mutable (NCCL's last error belongs to the process)
  static auto* const messages = new Messages;
  return *messages;
}

/// Keeps the message. Whether it is to be logged: some repeat a call that is refused for ever.
bool keep(const std::string& message) {
  constexpr size_t kMostLogged = 100;
  const std::lock_guard lock(process_mutex());
  messages().last = message;
  std::set<std::string>& logged = messages().logged;
  return logged.size() < kMostLogged && logged.insert(message).second;
}

}  // namespace

ncclResult_t fail(ncclResult_t result, const std::string& message) {
  if (keep(message)) tuttiLog(tuttiLogWarn, message.c_str());
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
  const std::lock_guard lock(process_mutex());
  return messages().last;
}

}  // namespace tutti::nccl
