// A multicast object: memory of several devices behind one address. Processes share it by its
// memfd, which has the team and says where each member's memory lies.
//
// It is stricter than a board: what a board would wait for in the driver (that all devices are
// added) is an error here, since a program whose processes do not tell each other may hang there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/software_device/device/memory.h"

namespace softdev {

/// Other than memory's, so that a program that takes one for the other fails.
inline constexpr size_t kMulticastUnit = 2 * kGranule;

class Multicast {
 public:
  /// Null: the system refused.
  static std::shared_ptr<Multicast> make(unsigned devices, size_t bytes);
  /// Null: it is none, and the descriptor stays the caller's.
  static std::shared_ptr<Multicast> import(int fd);
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;
  ~Multicast();

  int fd() const { return fd_; }
  size_t bytes() const;
  bool has(int device) const;
  bool is_whole() const;
  CUresult add(int device);
  CUresult bind(size_t offset, std::shared_ptr<Physical> physical, size_t from, size_t bytes);
  CUresult unbind(int device, size_t offset, size_t bytes);
  /// The same bytes of all devices, in the order in which they were added; empty: of some device
  /// none are bound there.
  std::vector<Segment> locate(size_t offset, size_t bytes);

 private:
  struct Shared;
  Multicast() = default;
  bool map();
  std::shared_ptr<Physical> memory_of(int process, int fd, uint64_t inode);

  int fd_ = -1;
  Shared* shared_ = nullptr;
  std::mutex mutex_;
  std::map<uint64_t, std::shared_ptr<Physical>> known_;  // by inode: also what this process bound
};

CUresult map_multicast(CUdeviceptr address, size_t bytes, size_t offset,
                       std::shared_ptr<Multicast> multicast);

}  // namespace softdev
