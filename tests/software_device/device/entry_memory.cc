// Entry points of memory: allocations, the virtual memory API, registration, legacy handles of
// other processes, and what is known of an address.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/handles.h"
#include "tests/software_device/device/ipc.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

constexpr unsigned char kFresh = 0xdd;  // new memory holds no zeros that a program could count on

std::atomic<size_t> used{0};  // bytes of device memory that were allocated and not freed

bool take_memory(size_t bytes) {
  const size_t all = static_cast<size_t>(settings().memory_mb) << 20;
  if (used.fetch_add(bytes) + bytes > all) {
    used -= bytes;
    return false;
  }
  count(&SoftdevStatistics::live_device_bytes, static_cast<int64_t>(bytes));
  return true;
}

void give_memory_back(size_t bytes) {
  used -= bytes;
  count(&SoftdevStatistics::live_device_bytes, -static_cast<int64_t>(bytes));
}

CUresult allocate(Context& context, size_t bytes, Kind kind, uintptr_t* address) {
  if (bytes == 0) return kErrorInvalidValue;
  const size_t whole = round_up(bytes, kPage);
  const bool on_device = kind == Kind::kDevice || kind == Kind::kPool;
  if (on_device && !take_memory(whole)) return kErrorOutOfMemory;
  Mapping mapping;
  mapping.physical = Physical::make(whole, context.device);
  mapping.address = AddressSpace::reserve_addresses(whole, on_device ? kGranule : kPage);
  if (mapping.physical == nullptr || mapping.address == 0) return kErrorOutOfMemory;
  mapping.bytes = whole;
  mapping.requested = bytes;
  mapping.kind = kind;
  std::memset(mapping.physical->alias, kFresh, whole);
  if (!on_device) {
    void* visible = mmap(reinterpret_cast<void*>(mapping.address), whole, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, mapping.physical->fd, 0);
    if (visible == MAP_FAILED) return kErrorOutOfMemory;
  }
  *address = mapping.address;
  addresses().add(std::move(mapping));
  count(&SoftdevStatistics::live_allocations, 1);
  return kSuccess;
}

CUresult forget(uintptr_t address, Kind kind) {
  const std::optional<Mapping> removed = addresses().remove(address, kind);
  if (!removed) return kErrorInvalidValue;
  munmap(reinterpret_cast<void*>(address), removed->bytes);
  if (kind == Kind::kDevice || kind == Kind::kPool) give_memory_back(removed->bytes);
  count(kind == Kind::kImported ? &SoftdevStatistics::live_imports
                                : &SoftdevStatistics::live_allocations,
        -1);
  return kSuccess;
}

CUresult release(Context& context, uintptr_t address, Kind kind) {
  if (settings().free_waits != 0) drain(context);
  return forget(address, kind);
}

bool is_exportable_device_memory(const CUmemAllocationProp& properties) {
  return properties.type == kAllocationPinned && properties.location.type == kLocationDevice &&
         (properties.requestedHandleTypes & ~kHandlePosixDescriptor) == 0;
}

/// False: the memory has no such fact.
bool fact_of(const Mapping& mapping, CUpointer_attribute attribute, CUdeviceptr address,
             void* value) {
  const auto put = [value](auto fact) {
    std::memcpy(value, &fact, sizeof fact);
    return true;
  };
  switch (attribute) {
    case kPointerContext: {
      const bool has = mapping.kind == Kind::kDevice || mapping.kind == Kind::kImported;
      return put(has ? static_cast<void*>(current_context()) : nullptr);
    }
    case kPointerMemoryType:
      return put(mapping.on_host() ? kMemoryTypeHost : kMemoryTypeDevice);
    case kPointerDeviceOrdinal:
      return put(mapping.physical != nullptr ? mapping.physical->device : 0);
    case kPointerRangeStart:
      return put(static_cast<CUdeviceptr>(mapping.address));
    case kPointerRangeBytes:
      return put(mapping.requested);
    case kPointerBufferId:
      return put(mapping.buffer_id);
    case kPointerIsManaged:
      return put(0u);
    default:
      static_cast<void>(address);
      return false;
  }
}

size_t bytes_of(CUpointer_attribute attribute) {
  const bool small = attribute == kPointerMemoryType || attribute == kPointerDeviceOrdinal ||
                     attribute == kPointerIsManaged;
  return small ? 4 : 8;
}

}  // namespace

CUresult cuMemAlloc(CUdeviceptr* address, size_t bytes) {
  return in_context_outside_captures(
      [&](Context& context) { return allocate(context, bytes, Kind::kDevice, address); });
}

// Of this process's memory: what others take of the same device is not known here.
CUresult cuMemGetInfo(size_t* unused, size_t* all) {
  return in_context([&](Context&) {
    *all = static_cast<size_t>(settings().memory_mb) << 20;
    *unused = *all - std::min(*all, used.load());
    return kSuccess;
  });
}

CUresult cuMemFree(CUdeviceptr address) {
  return in_context_outside_captures([&](Context& context) {
    return address == 0 ? kSuccess : release(context, address, Kind::kDevice);
  });
}

/// Memory of a pool can be used behind this in the stream, and is nobody's behind cuMemFreeAsync.
/// In graphs it is not here.
CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  return on_stream(handle, [&](Stream& stream) {
    if (spoil_capture(stream)) return kErrorStreamCaptureUnsupported;
    return allocate(*stream.context, bytes, Kind::kPool, address);
  });
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  return on_stream(handle, [&](Stream& stream) {
    if (spoil_capture(stream)) return kErrorStreamCaptureUnsupported;
    const auto mapping = addresses().find(address);
    if (!mapping || mapping->address != address || mapping->kind != Kind::kPool) {
      return kErrorInvalidValue;
    }
    return submit(stream, once([address] { forget(address, Kind::kPool); }));
  });
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  return in_context_outside_captures([&](Context& context) {
    uintptr_t made = 0;
    const CUresult result = allocate(context, bytes, Kind::kPinned, &made);
    if (result != kSuccess) return result;
    *address = reinterpret_cast<void*>(made);
    count(&SoftdevStatistics::live_pinned_bytes,
          static_cast<int64_t>(addresses().find(made)->bytes));
    return result;
  });
}

CUresult cuMemFreeHost(void* address) {
  return in_context_outside_captures([&](Context& context) {
    const auto mapping = addresses().find(reinterpret_cast<uintptr_t>(address));
    const uint64_t bytes = mapping ? mapping->bytes : 0;
    const CUresult result = release(context, reinterpret_cast<uintptr_t>(address), Kind::kPinned);
    if (result == kSuccess) {
      count(&SoftdevStatistics::live_pinned_bytes, -static_cast<int64_t>(bytes));
    }
    return result;
  });
}

CUresult cuMemHostRegister(void* address, size_t bytes, unsigned) {
  return in_context_outside_captures([&](Context&) {
    if (address == nullptr || bytes == 0) return kErrorInvalidValue;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (addresses().find(begin) || addresses().find(begin + bytes - 1)) {
      return kErrorHostMemoryAlreadyRegistered;
    }
    Mapping mapping;
    mapping.address = begin;
    mapping.bytes = bytes;
    mapping.kind = Kind::kRegistered;
    mapping.place = place_in_file(begin);
    // Private memory is no other process's: numbers with the highest bit are no inodes.
    if (mapping.place.object == 0) {
      const auto process = static_cast<uint64_t>(getpid());
      mapping.place.object = uint64_t{1} << 63 | process << 32 | addresses().next_id();
    }
    addresses().add(std::move(mapping));
    count(&SoftdevStatistics::live_registrations, 1);
    return kSuccess;
  });
}

CUresult cuMemHostUnregister(void* address) {
  return in_context_outside_captures([&](Context& context) {
    if (settings().free_waits != 0) drain(context);
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (!addresses().remove(begin, Kind::kRegistered)) return kErrorHostMemoryNotRegistered;
    count(&SoftdevStatistics::live_registrations, -1);
    return kSuccess;
  });
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr* out, void* address, unsigned) {
  return in_context([&](Context&) {
    const auto mapping = addresses().find(reinterpret_cast<uintptr_t>(address));
    if (!mapping || !mapping->on_host()) return kErrorInvalidValue;
    *out = reinterpret_cast<CUdeviceptr>(address);
    return kSuccess;
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  return in_context([&](Context&) {
    const auto mapping = addresses().find(address);
    if (!mapping) return kErrorNotFound;
    if (base != nullptr) *base = mapping->address;
    if (bytes != nullptr) *bytes = mapping->requested;
    return kSuccess;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  return entered([&] {
    if (!is_device(properties->location.id)) return kErrorInvalidDevice;
    *bytes = kGranule;
    return kSuccess;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long flags) {
  return entered([&] {
    if (bytes == 0 || bytes % kGranule != 0 || flags != 0) return kErrorInvalidValue;
    if (!is_exportable_device_memory(*properties)) return kErrorNotSupported;
    if (!is_device(properties->location.id)) return kErrorInvalidDevice;
    if (!take_memory(bytes)) return kErrorOutOfMemory;
    auto physical = Physical::make(bytes, properties->location.id);
    if (physical == nullptr) return kErrorOutOfMemory;
    std::memset(physical->alias, kFresh, bytes);
    *handle = give_out({.physical = std::move(physical)});
    return kSuccess;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return entered([&] {
    const std::lock_guard lock(handles().mutex);
    const auto found = handles().entries.find(handle);
    if (found == handles().entries.end()) return kErrorInvalidValue;
    count(&SoftdevStatistics::live_handles, -1);
    if (--found->second.given_out > 0) return kSuccess;
    const Handles::Entry& entry = found->second;
    if (!entry.imported && entry.physical != nullptr) give_memory_back(entry.physical->bytes);
    handles().entries.erase(found);
    return kSuccess;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  return entered([&] {
    const auto mapping = addresses().find(reinterpret_cast<uintptr_t>(address));
    if (!mapping || mapping->kind != Kind::kVirtual) return kErrorInvalidValue;
    *handle = give_out({.physical = mapping->physical, .imported = true});
    return kSuccess;
  });
}

// The range begins its memory, since a card that maps the descriptor begins at the range.
CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long) {
  return entered([&] {
    if (settings().dmabuf == 0) return kErrorNotSupported;
    const auto mapping = addresses().find(address);
    const bool is_known = mapping && type == kRangeDmaBuf && bytes > 0 && bytes % kPage == 0;
    if (!is_known || mapping->address != address || bytes > mapping->bytes) {
      return kErrorInvalidValue;
    }
    const int fd = fcntl(mapping->physical->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return kErrorOperatingSystem;
    std::memcpy(out, &fd, sizeof fd);
    return kSuccess;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
  return entered([&] { return addresses().reserve(bytes, alignment, address); });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return entered([&] { return addresses().unreserve(address, bytes); });
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  return entered([&] {
    Handles::Entry entry = entry_of(handle);
    if (entry.multicast != nullptr) return map_multicast(address, bytes, offset, entry.multicast);
    if (entry.physical == nullptr) return kErrorInvalidValue;
    return addresses().map(address, bytes, offset, std::move(entry.physical));
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return entered([&] {
    if (settings().free_waits != 0 && current_context() != nullptr) drain(*current_context());
    return addresses().unmap(address, bytes);
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* accesses,
                        size_t how_many) {
  return entered([&] {
    for (size_t i = 0; i < how_many; ++i) {
      if (!is_device(accesses[i].location.id)) return kErrorInvalidDevice;
      const CUresult result = addresses().set_access(address, bytes, accesses[i]);
      if (result != kSuccess) return result;
    }
    return kSuccess;
  });
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  return entered([&] {
    if (type != kHandlePosixDescriptor) return kErrorNotSupported;
    const Handles::Entry entry = entry_of(handle);
    if (entry.physical == nullptr && entry.multicast == nullptr) return kErrorInvalidValue;
    const int shared = entry.physical != nullptr ? entry.physical->fd : entry.multicast->fd();
    const int fd = fcntl(shared, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return kErrorOperatingSystem;
    std::memcpy(out, &fd, sizeof fd);
    return kSuccess;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* descriptor,
                                        CUmemAllocationHandleType type) {
  return entered([&] {
    if (type != kHandlePosixDescriptor) return kErrorNotSupported;
    const int own =
        fcntl(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), F_DUPFD_CLOEXEC, 0);
    if (own < 0) return kErrorInvalidValue;
    Handles::Entry entry{.imported = true};
    entry.multicast = Multicast::import(own);
    if (entry.multicast == nullptr) entry.physical = Physical::import(own);
    if (entry.physical == nullptr && entry.multicast == nullptr) return kErrorInvalidValue;
    *handle = give_out(std::move(entry));
    return kSuccess;
  });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  return in_context([&](Context&) {
    const auto mapping = addresses().find(address);
    if (!mapping || mapping->kind != Kind::kDevice) return kErrorInvalidValue;
    name_memory(*mapping->physical, handle->reserved);
    return kSuccess;
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* address, CUipcMemHandle handle, unsigned) {
  return in_context_outside_captures([&](Context&) {
    std::shared_ptr<Physical> physical;
    const CUresult opened = open_named(handle.reserved, &physical);
    if (opened != kSuccess) return opened;
    Mapping mapping;
    mapping.bytes = round_up(physical->bytes, kPage);
    mapping.address = AddressSpace::reserve_addresses(mapping.bytes, kGranule);
    if (mapping.address == 0) return kErrorMapFailed;
    mapping.kind = Kind::kImported;
    mapping.physical = std::move(physical);
    *address = mapping.address;
    addresses().add(std::move(mapping));
    count(&SoftdevStatistics::live_imports, 1);
    return kSuccess;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return in_context_outside_captures(
      [&](Context& context) { return release(context, address, Kind::kImported); });
}

CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  return entered([&] {
    const auto mapping = addresses().find(address);
    if (!mapping) return kErrorInvalidValue;
    return fact_of(*mapping, attribute, address, value) ? kSuccess : kErrorNotSupported;
  });
}

/// An address that nobody made known has facts of nothing, and is no error.
CUresult cuPointerGetAttributes(unsigned how_many, CUpointer_attribute* attributes, void** values,
                                CUdeviceptr address) {
  return entered([&] {
    const auto mapping = addresses().find(address);
    for (unsigned i = 0; i < how_many; ++i) {
      if (mapping && fact_of(*mapping, attributes[i], address, values[i])) continue;
      std::memset(values[i], 0, bytes_of(attributes[i]));
      const int no_device = -2;
      if (attributes[i] == kPointerDeviceOrdinal)
        std::memcpy(values[i], &no_device, sizeof no_device);
    }
    return kSuccess;
  });
}

}  // namespace softdev
