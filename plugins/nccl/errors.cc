#include "plugins/nccl/errors.h"

#include <exception>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/forks.h"
#include "plugins/nccl/group.h"
#include "tutti/plugin.h"

namespace tutti::nccl {
namespace {

/// Under the process's mutex, also while it is made.
struct Messages {
  std::string last;
  const char* without_memory = nullptr;  // instead of it
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
  messages().without_memory = nullptr;
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
  const Messages& all = messages();
  return all.without_memory != nullptr ? all.without_memory : all.last;
}

ncclResult_t fail_by(const std::exception& error) {
  const bool exhausted = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const ncclResult_t result = exhausted ? ncclSystemError : ncclInternalError;
  try {
    const std::lock_guard lock(process_mutex());
    messages().without_memory = exhausted ? "no memory is left for the call: free some"
                                          : "an unexpected exception, a defect in Tutti";
  } catch (const std::exception&) {  // not even for the place of the message
  }
  try {
    return part_of_group(result);
  } catch (const std::exception&) {
    return result;
  }
}

}  // namespace tutti::nccl
