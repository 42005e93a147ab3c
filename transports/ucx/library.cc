#include "transports/ucx/library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>

namespace tutti::transports::ucx {
namespace {

constexpr const char* kFile = "libucp.so.0";
constexpr unsigned kMajor = 1, kLeastMinor = 13;

/// The handlers of this process while others are set, put back at the end.
class KeptHandlers {
 public:
  KeptHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  ~KeptHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_[i], nullptr);
  }
  KeptHandlers(const KeptHandlers&) = delete;
  KeptHandlers& operator=(const KeptHandlers&) = delete;

 private:
  static constexpr std::array kSignals = {SIGHUP, SIGILL,  SIGTRAP, SIGABRT, SIGBUS,
                                          SIGFPE, SIGSEGV, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, kSignals.size()> actions_{};
};

bool is_only_thread() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1;
}

// Variables that the program has set stay.
void keep_process_as_it_is() {
  if (!is_only_thread()) return;
  setenv("UCX_HANDLE_ERRORS", "", 0);
  setenv("UCX_DEBUG_SIGNO", "0", 0);
  setenv("UCX_MEM_EVENTS", "n", 0);
}

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

Status check_version(const api::UcxFunctions& functions) {
  unsigned major = 0, minor = 0, release = 0;
  functions.ucp_get_version(&major, &minor, &release);
  if (major == kMajor && minor >= kLeastMinor) return {};
  return Status::unsupported("libucp is of version " + std::to_string(major) + "." +
                             std::to_string(minor) + "; Tutti needs 1.13 or a later one of 1");
}

Result<api::UcxFunctions> load_library_from(const char* file) {
  const KeptHandlers handlers;
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status::unsupported(std::string("there is no usable ") + file + ": " +
                               (why == nullptr ? "no reason given" : why));
  }
  api::UcxFunctions functions;
#define TUTTI_UCX_FIND(result, name, parameters)                      \
  if (!find(library, #name, functions.name)) {                        \
    return Status::unsupported(std::string(file) + " has no " #name); \
  }
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_FIND)
#undef TUTTI_UCX_FIND
  if (Status status = check_version(functions); !status.ok()) return status;
  return functions;
}

Result<const api::UcxFunctions*> load_library() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // It replaces what the sanitizers replace, and hides from them what orders its threads.
  return Status::unsupported("UCX is not loaded into a build with sanitizers");
#endif
  static const Result<api::UcxFunctions> loaded = [] {
    keep_process_as_it_is();
    return load_library_from(kFile);
  }();
  if (!loaded.ok()) {
    return Status::unsupported(std::string(loaded.status().message()) + " (Debian: libucx0)");
  }
  return &loaded.value();
}

}  // namespace tutti::transports::ucx
