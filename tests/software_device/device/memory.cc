#include "tests/software_device/device/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "tests/software_device/device/multicast.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

constexpr uint64_t kMemoryMagic = 0x6564'7466'6f73'3031;

/// In the page behind the memory: what a process that imports the descriptor may trust.
struct Trailer {
  uint64_t magic = kMemoryMagic;
  uint64_t bytes = 0;
  int device = 0;
};

/// By cuMemMap.
bool is_mapped(const Mapping& mapping) {
  return mapping.kind == Kind::kVirtual || mapping.kind == Kind::kMulticast;
}

bool may_reach(int device, const Mapping& mapping) {
  if (mapping.kind == Kind::kMulticast) return mapping.multicast->has(device);
  return are_near(device, mapping.physical->device);
}

}  // namespace

Physical::~Physical() {
  if (alias != nullptr) munmap(alias, round_up(bytes, kPage));
  if (fd >= 0) close(fd);
}

bool Physical::map() {
  struct stat facts {};
  if (fstat(fd, &facts) != 0) return false;
  inode = facts.st_ino;
  void* mapped = mmap(nullptr, round_up(bytes, kPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return false;
  alias = static_cast<char*>(mapped);
  return true;
}

std::shared_ptr<Physical> Physical::make(size_t bytes, int device) {
  auto physical = std::make_shared<Physical>();
  physical->fd = memfd_create("software_device", MFD_CLOEXEC);
  physical->device = device;
  physical->bytes = bytes;
  const auto end = static_cast<off_t>(round_up(bytes, kPage));
  const Trailer trailer{kMemoryMagic, bytes, device};
  if (physical->fd < 0 || ftruncate(physical->fd, end + static_cast<off_t>(kPage)) != 0 ||
      pwrite(physical->fd, &trailer, sizeof trailer, end) != sizeof trailer || !physical->map()) {
    return nullptr;
  }
  return physical;
}

std::shared_ptr<Physical> Physical::import(int fd) {
  auto physical = std::make_shared<Physical>();
  physical->fd = fd;
  struct stat facts {};
  Trailer trailer;
  if (fstat(fd, &facts) != 0 || facts.st_size < static_cast<off_t>(2 * kPage)) return nullptr;
  const off_t end = facts.st_size - static_cast<off_t>(kPage);
  if (pread(fd, &trailer, sizeof trailer, end) != sizeof trailer || trailer.magic != kMemoryMagic ||
      static_cast<off_t>(round_up(trailer.bytes, kPage)) != end) {
    return nullptr;
  }
  physical->bytes = trailer.bytes;
  physical->device = trailer.device;
  return physical->map() ? physical : nullptr;
}

// All but the first segment begin where a page does, and all but the last one end there.
std::unique_ptr<WholeRange> WholeRange::map(const Range& range) {
  std::unique_ptr<WholeRange> made(new WholeRange);
  const uint64_t before = range.segments.front().place.offset % kPage;
  size_t bytes = before;
  for (const Segment& segment : range.segments) bytes += segment.bytes;
  made->bytes_ = round_up(bytes, kPage);
  void* const all = mmap(nullptr, made->bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  made->mapped_ = all;
  made->data_ = static_cast<char*>(all) + before;
  char* at = static_cast<char*>(all);
  for (const Segment& segment : range.segments) {
    const uint64_t begin = segment.place.offset / kPage * kPage;
    const size_t piece = round_up(segment.place.offset - begin + segment.bytes, kPage);
    if (segment.hold == nullptr || mmap(at, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                        segment.hold->fd, static_cast<off_t>(begin)) != at) {
      return nullptr;
    }
    at += piece;
  }
  return made;
}

WholeRange::~WholeRange() {
  if (mapped_ != nullptr) munmap(mapped_, bytes_);
}

uintptr_t AddressSpace::reserve_addresses(size_t bytes, size_t alignment) {
  const size_t wanted = round_up(bytes, kPage);
  void* all = mmap(nullptr, wanted + alignment, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<uintptr_t>(all);
  const uintptr_t address = round_up(begin, alignment);
  if (address > begin) munmap(all, address - begin);
  const size_t behind = begin + alignment - address;
  if (behind > 0) munmap(reinterpret_cast<void*>(address + wanted), behind);
  return address;
}

void AddressSpace::add(Mapping mapping) {
  const std::unique_lock lock(mutex_);
  mapping.buffer_id = next_id();
  if (mapping.requested == 0) mapping.requested = mapping.bytes;
  if (mapping.physical != nullptr) mapping.place = {mapping.physical->inode, mapping.offset};
  mappings_[mapping.address] = std::move(mapping);
}

const Mapping* AddressSpace::find_locked(uintptr_t address) const {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return nullptr;
  const Mapping& mapping = std::prev(next)->second;
  return address - mapping.address < mapping.bytes ? &mapping : nullptr;
}

std::optional<Mapping> AddressSpace::find(uintptr_t address) const {
  const std::shared_lock lock(mutex_);
  const Mapping* found = find_locked(address);
  return found != nullptr ? std::optional<Mapping>(*found) : std::nullopt;
}

std::optional<Mapping> AddressSpace::remove(uintptr_t address, Kind kind) {
  const std::unique_lock lock(mutex_);
  const auto found = mappings_.find(address);
  if (found == mappings_.end() || found->second.kind != kind) return std::nullopt;
  Mapping removed = std::move(found->second);
  mappings_.erase(found);
  return removed;
}

bool AddressSpace::is_reserved(uintptr_t address, size_t bytes) const {
  const auto next = reserved_.upper_bound(address);
  if (next == reserved_.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return address - begin < size && bytes <= size - (address - begin);
}

Range AddressSpace::locate(uintptr_t address, size_t bytes, int device) const {
  const std::shared_lock lock(mutex_);
  Range range;
  const Mapping* mapping = find_locked(address);
  if (mapping == nullptr) {
    range.pageable = range.valid = !is_reserved(address, 1);
    range.segments.push_back({reinterpret_cast<char*>(address), bytes, {}, nullptr});
    return range;
  }
  range.on_device = !mapping->on_host();
  if (mapping->kind == Kind::kMulticast) return range;  // no copy, load or store may touch it
  while (bytes > 0) {
    if (mapping == nullptr || ((mapping->reachable >> device) & 1) == 0) return range;
    if (!mapping->on_host() && !are_near(device, mapping->physical->device)) return range;
    const size_t skipped = address - mapping->address;
    if (skipped >= mapping->requested) return range;
    const size_t piece = std::min(bytes, mapping->requested - skipped);
    char* const base = mapping->physical != nullptr ? mapping->physical->alias + mapping->offset
                                                    : reinterpret_cast<char*>(mapping->address);
    range.segments.push_back({base + skipped,
                              piece,
                              {mapping->place.object, mapping->place.offset + skipped},
                              mapping->physical});
    address += piece;
    bytes -= piece;
    if (bytes > 0) mapping = find_locked(address);
  }
  range.valid = true;
  return range;
}

CUresult AddressSpace::reserve(size_t bytes, size_t alignment, CUdeviceptr* address) {
  if (bytes == 0 || bytes % kGranule != 0) return kErrorInvalidValue;
  *address = reserve_addresses(bytes, std::max(alignment, kGranule));
  if (*address == 0) return kErrorOutOfMemory;
  const std::unique_lock lock(mutex_);
  reserved_[*address] = bytes;
  count(&SoftdevStatistics::live_reservations, 1);
  return kSuccess;
}

CUresult AddressSpace::unreserve(uintptr_t address, size_t bytes) {
  const std::unique_lock lock(mutex_);
  const auto found = reserved_.find(address);
  if (found == reserved_.end() || found->second != bytes) return kErrorInvalidValue;
  const auto inside = mappings_.lower_bound(address);
  if (inside != mappings_.end() && inside->first < address + bytes) return kErrorInvalidValue;
  munmap(reinterpret_cast<void*>(address), bytes);
  reserved_.erase(found);
  count(&SoftdevStatistics::live_reservations, -1);
  return kSuccess;
}

CUresult AddressSpace::map(uintptr_t address, size_t bytes, size_t offset,
                           std::shared_ptr<Physical> physical) {
  const bool whole = address % kGranule == 0 && bytes % kGranule == 0 && bytes > 0;
  if (!whole || offset > physical->bytes || bytes > physical->bytes - offset) {
    return kErrorInvalidValue;
  }
  Mapping mapping;
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.kind = Kind::kVirtual;
  mapping.physical = std::move(physical);
  mapping.offset = offset;
  return map(std::move(mapping));
}

CUresult AddressSpace::map(Mapping mapping) {
  const uintptr_t address = mapping.address;
  {
    const std::shared_lock lock(mutex_);
    const auto next = mappings_.lower_bound(address);
    const bool taken = find_locked(address) != nullptr ||
                       (next != mappings_.end() && next->first < address + mapping.bytes);
    if (!is_reserved(address, mapping.bytes) || taken) return kErrorInvalidValue;
  }
  mapping.reachable = 0;  // until set_access()
  add(std::move(mapping));
  count(&SoftdevStatistics::live_mappings, 1);
  return kSuccess;
}

CUresult AddressSpace::unmap(uintptr_t address, size_t bytes) {
  const std::unique_lock lock(mutex_);
  for (size_t done = 0; done < bytes;) {
    const auto found = mappings_.find(address + done);
    if (found == mappings_.end() || !is_mapped(found->second)) return kErrorInvalidValue;
    done += found->second.bytes;
    mappings_.erase(found);
    count(&SoftdevStatistics::live_mappings, -1);
  }
  return kSuccess;
}

CUresult AddressSpace::set_access(uintptr_t address, size_t bytes, const CUmemAccessDesc& access) {
  if (access.location.type != kLocationDevice) return kErrorInvalidValue;
  const uint64_t bit = uint64_t{1} << access.location.id;
  const std::unique_lock lock(mutex_);
  for (size_t done = 0; done < bytes;) {
    const auto found = mappings_.find(address + done);
    if (found == mappings_.end() || !is_mapped(found->second)) return kErrorInvalidValue;
    if (access.flags != kAccessNone && !may_reach(access.location.id, found->second)) {
      return kErrorInvalidDevice;
    }
    uint64_t& reachable = found->second.reachable;
    reachable = access.flags == kAccessNone ? reachable & ~bit : reachable | bit;
    done += found->second.bytes;
  }
  return kSuccess;
}

AddressSpace& addresses() {
  static AddressSpace* const space = new AddressSpace;  // threads of streams outlive destructors
  return *space;
}

Place place_in_file(uintptr_t address) {
  Place place;
  FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return place;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long begin = 0, end = 0, offset = 0, inode = 0;
    char rights[5] = "";
    const int fields =
        std::sscanf(line, "%lx-%lx %4s %lx %*s %lu", &begin, &end, rights, &offset, &inode);
    if (fields != 5 || address < begin || address >= end) continue;
    if (rights[3] == 's') place = {inode, offset + (address - begin)};
    break;
  }
  std::fclose(maps);
  return place;
}

}  // namespace softdev
