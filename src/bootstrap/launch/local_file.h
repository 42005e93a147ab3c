// A secret handed from one process of a user to others on the same host: a file that only the user
// can open, which is believed only while its maker lives.
//
// The maker holds a lock on it. The file of a killed job is therefore never taken for that of the
// present one, whatever the process numbers.
//
// Owns: the file, until it is destroyed. Errors: say which path, what is wrong with it and what to
// do. Threads: one. Lifetime: nothing of it is left afterwards, the folder neither if it is empty.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/fork.h"
#include "src/base/io.h"
#include "src/base/status.h"

namespace tutti::bootstrap {

class LocalFile {
 public:
  /// XDG_RUNTIME_DIR if it is private, else a folder of this user in /tmp.
  static std::string folder(const Variables& variables);

  /// Under a new name that begins so. The folder is made, and what killed processes have left under
  /// such names is removed.
  static Result<LocalFile> post(const std::string& folder, const std::string& prefix,
                                std::string_view bytes);

  struct FoundFile {
    std::string name;
    std::string bytes;
  };
  struct Found {
    std::vector<FoundFile> posted;  // what living processes have posted
    bool leftovers = false;         // files of processes that have ended lie there, too
  };
  /// All files whose names begin so. The folder is made, so that a rank that waits learns what
  /// keeps the others from posting.
  static Result<Found> find(const std::string& folder, const std::string& prefix);

  /// Takes a file away, also one of another process. Returns false if it was not there any more.
  static Result<bool> remove(const std::string& folder, const std::string& name);
  /// Removes what killed processes have left under names that begin so, as far as it can.
  static void sweep(const std::string& folder, const std::string& prefix);

  /// The folder goes if nothing is in it.
  static void leave(const std::string& folder);

  const std::string& name() const { return name_; }
  /// False once somebody has removed it.
  bool posted() const;
  /// Gets a new name that begins so, at once. False: it was removed.
  Result<bool> rename(const std::string& prefix);

  LocalFile(LocalFile&&) = default;
  ~LocalFile();

 private:
  LocalFile(Fd folder, KeptFd file, std::string path, std::string name);

  Fd folder_;
  KeptFd file_;  // locked: a child would keep it so when this process is gone
  std::string folder_path_;
  std::string name_;
};

}  // namespace tutti::bootstrap
