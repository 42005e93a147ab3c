// A library of a launcher, loaded when it is needed and there.
//
// Owns: nothing: a library with threads of its own must never be unloaded. Errors: kUnsupported.
#pragma once

#include <dlfcn.h>

#include <initializer_list>
#include <string>

#include "src/base/status.h"

namespace tutti::bootstrap {

class Library {
 public:
  /// The first of these that can be loaded.
  static Result<Library> open(std::initializer_list<const char*> names) {
    std::string tried;
    for (const char* name : names) {
      if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return Library(handle);
      tried += (tried.empty() ? "" : ", ") + std::string(name);
    }
    return Status::unsupported("none of " + tried + " can be loaded");
  }

  /// False if the library has no such function.
  template <class Function>
  bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* handle_;
};

}  // namespace tutti::bootstrap
