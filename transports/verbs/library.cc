#include "transports/verbs/library.h"

#include <dlfcn.h>

#include <string>

namespace tutti::transports::verbs {
namespace {

constexpr const char* kFile = "libibverbs.so.1";

template <class Function>
bool find(void* library, const char* name, const char* version, Function& function) {
  function = reinterpret_cast<Function>(dlvsym(library, name, version));
  return function != nullptr;
}

/// Kernels before 5.12 share pinned pages with a forked child, unless the library prevents it; that
/// has to be asked for before any memory is registered.
void prepare_for_forks(void* library, const api::VerbsFunctions& functions) {
  constexpr int kDisabled = 0;
  int (*is_initialized)() = nullptr;
  const bool knows = find(library, "ibv_is_fork_initialized", "IBVERBS_1.13", is_initialized);
  if (!knows || is_initialized() == kDisabled) functions.ibv_fork_init();
}

}  // namespace

Result<api::VerbsFunctions> load_library_from(const char* file) {
  void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status::unsupported(std::string("there is no usable ") + file + ": " +
                               (why == nullptr ? "no reason given" : why));
  }
  api::VerbsFunctions functions;
#define TUTTI_VERBS_FIND(result, name, version, parameters)                                  \
  if (!find(library, #name, version, functions.name)) {                                      \
    return Status::unsupported(std::string(file) + " has no " #name " of version " version); \
  }
  TUTTI_VERBS_FUNCTIONS(TUTTI_VERBS_FIND)
#undef TUTTI_VERBS_FIND
#define TUTTI_VERBS_LOOK(result, name, version, parameters) \
  (void)find(library, #name, version, functions.name);
  TUTTI_VERBS_LATER_FUNCTIONS(TUTTI_VERBS_LOOK)
#undef TUTTI_VERBS_LOOK
  prepare_for_forks(library, functions);
  return functions;
}

Result<const api::VerbsFunctions*> load_library() {
  static const Result<api::VerbsFunctions> loaded = load_library_from(kFile);
  if (!loaded.ok()) {
    return Status::unsupported(std::string(loaded.status().message()) +
                               " (Debian: libibverbs1 and ibverbs-providers)");
  }
  return &loaded.value();
}

}  // namespace tutti::transports::verbs
