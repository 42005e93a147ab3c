// The memory of the software device, and the addresses that programs know it by.
//
// Physical memory is a memfd. Device addresses that programs get have no access rights: a thread of
// the host that touches device memory is ended by SIGSEGV, as with a board of its own. The device
// uses a second mapping. A process with a descriptor of the memfd keeps the memory alive, also when
// the process that made it is killed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "tests/software_device/more_api.h"

namespace softdev {

inline constexpr size_t kGranule = size_t{2} << 20;
inline constexpr size_t kPage = 4096;

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// A byte that several processes can name: an object (a memfd's inode, or a number of this process)
/// and the offset in it.
struct Place {
  uint64_t object = 0;
  uint64_t offset = 0;
};

/// Owns: descriptor and mapping.
struct Physical {
  int fd = -1;
  int device = 0;
  size_t bytes = 0;
  char* alias = nullptr;  // where the device touches it
  uint64_t inode = 0;

  Physical() = default;
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;
  ~Physical();

  /// Null: the system refused.
  static std::shared_ptr<Physical> make(size_t bytes, int device);
  /// Takes the descriptor. Null: it is none of a software device.
  static std::shared_ptr<Physical> import(int fd);

 private:
  bool map();
};

class Multicast;

/// kPool: by a call that is put into a stream, from what the driver keeps for such calls.
enum class Kind { kDevice, kPool, kVirtual, kImported, kPinned, kRegistered, kMulticast };

struct Mapping {
  uintptr_t address = 0;
  size_t bytes = 0;      // mapped
  size_t requested = 0;  // what may be touched
  Kind kind = Kind::kDevice;
  std::shared_ptr<Physical> physical;      // null: registered memory, which is touched where it is
  std::shared_ptr<Multicast> multicast{};  // of kMulticast, which has no physical memory
  size_t offset = 0;                       // in the physical memory, or the multicast object
  Place place;                             // of the first byte
  uint64_t reachable = ~uint64_t{0};       // a bit for each device
  uint64_t buffer_id = 0;

  bool on_host() const { return kind == Kind::kPinned || kind == Kind::kRegistered; }
};

/// One contiguous piece of a range.
struct Segment {
  char* data = nullptr;
  size_t bytes = 0;
  Place place;  // object 0: pageable memory, of which the checker knows nothing
  std::shared_ptr<Physical> hold;
};

struct Range {
  bool valid = false;
  bool on_device = false;
  bool pageable = false;
  std::vector<Segment> segments;
};

/// A range of several segments of device memory where the host finds it in one piece.
class WholeRange {
 public:
  /// Null: the system refused.
  static std::unique_ptr<WholeRange> map(const Range& range);
  WholeRange(const WholeRange&) = delete;
  WholeRange& operator=(const WholeRange&) = delete;
  ~WholeRange();
  char* data() const { return data_; }

 private:
  WholeRange() = default;
  void* mapped_ = nullptr;
  size_t bytes_ = 0;
  char* data_ = nullptr;
};

class AddressSpace {
 public:
  /// Addresses without access, aligned. 0: there are none.
  static uintptr_t reserve_addresses(size_t bytes, size_t alignment);

  void add(Mapping mapping);
  std::optional<Mapping> find(uintptr_t address) const;
  /// The mapping that begins there and is of this kind, which is no more.
  std::optional<Mapping> remove(uintptr_t address, Kind kind);
  /// The range as an engine of the device reaches it. Addresses that nobody made known are pageable
  /// memory of the host.
  Range locate(uintptr_t address, size_t bytes, int device) const;

  CUresult reserve(size_t bytes, size_t alignment, CUdeviceptr* address);
  CUresult unreserve(uintptr_t address, size_t bytes);
  CUresult map(uintptr_t address, size_t bytes, size_t offset, std::shared_ptr<Physical> physical);
  CUresult map(Mapping mapping);
  CUresult unmap(uintptr_t address, size_t bytes);
  CUresult set_access(uintptr_t address, size_t bytes, const CUmemAccessDesc& access);

  uint64_t next_id() { return ids_++; }

 private:
  const Mapping* find_locked(uintptr_t address) const;
  bool is_reserved(uintptr_t address, size_t bytes) const;

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, Mapping> mappings_;
  std::map<uintptr_t, size_t> reserved_;
  std::atomic<uint64_t> ids_{1};
};

AddressSpace& addresses();

/// Where registered memory lies in a file that is mapped shared, so that processes that map the
/// same file have the same places. Object 0: it is private.
Place place_in_file(uintptr_t address);

}  // namespace softdev
