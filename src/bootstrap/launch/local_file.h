// A secret handed from one process of a user to others on the same host: a file that only the user
// can open, which is believed only while its maker lives.
//
// The maker holds a lock on it. What a killed job has left behind is therefore never taken for the
// present one's, whatever the process numbers.
//
// Owns: the file, until it is destroyed. Errors: say which path and what is wrong with it;
// kTimeout. Threads: one. Lifetime: nothing of it is left afterwards, the folder neither if it is
// empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/config.h"
#include "src/base/io.h"
#include "src/base/patience.h"
#include "src/base/status.h"

namespace tutti::bootstrap {

class LocalFile {
 public:
  /// XDG_RUNTIME_DIR if it is private, else a folder of this user in /tmp.
  static std::string folder(const Variables& variables);

  /// Refuses a name that a living process has posted under.
  static Result<LocalFile> post(const std::string& folder, const std::string& name,
                                std::string_view bytes);

  /// Waits for exactly `bytes` bytes.
  static Result<std::string> await(const std::string& folder, const std::string& name, size_t bytes,
                                   const Patience& patience);

  LocalFile(LocalFile&&) = default;
  ~LocalFile();

 private:
  LocalFile(Fd folder, Fd file, std::string path, std::string name);

  Fd folder_;
  Fd file_;  // locked
  std::string folder_path_;
  std::string name_;
};

}  // namespace tutti::bootstrap
