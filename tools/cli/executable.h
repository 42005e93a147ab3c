// The kind of file that a command is, as far as preloading a library into it goes.
//
// Threads: any.
// Errors:  none; what cannot be read is kUnknown, and the kernel will say why.
#pragma once

#include <string>

namespace tutti::cli {

/// The file that execvp would run, or "" if there is none.
std::string find_command(const std::string& name);

enum class Preloading {
  kPossible,
  kStatic,      // no dynamic loader runs
  kPrivileged,  // set-user-id or set-group-id: the loader ignores LD_PRELOAD
  kUnknown
};

/// Follows the interpreter line of a script.
Preloading preloading_of(const std::string& path);

}  // namespace tutti::cli
