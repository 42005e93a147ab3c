// A file without a name, and which parts of it are free.
//
// Owns:    the descriptor. The file is gone with it, or with the process.
// Errors:  throws Error where the folder has no such file.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace tutti::runtime::offload {

class SpillFile {
 public:
  explicit SpillFile(const std::string& folder);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  int fd() const { return fd_; }
  const std::string& folder() const { return folder_; }
  /// The lowest part that is free and long enough.
  int64_t take(int64_t bytes);
  void give_back(int64_t offset, int64_t bytes);

 private:
  std::string folder_;
  int fd_ = -1;
  std::map<int64_t, int64_t> free_;  // offset, bytes; the last one has no end
};

/// Of these bytes; another value for nearly all that differ from them.
uint64_t checksum_of(const void* data, int64_t bytes);

}  // namespace tutti::runtime::offload
