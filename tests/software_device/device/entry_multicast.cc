// Entry points of multicast objects, and the handles that they share with memory.
#include <utility>

#include "tests/software_device/device/device.h"
#include "tests/software_device/device/entry_points.h"
#include "tests/software_device/device/handles.h"
#include "tests/software_device/device/settings.h"
#include "tests/software_device/device/statistics.h"

namespace softdev {
namespace {

bool has_multicast(int device) { return device < settings().multicast; }

/// The properties of an object that could be made.
CUresult check(const CUmulticastObjectProp& properties) {
  if (settings().multicast == 0) return kErrorNotSupported;
  const bool few = properties.numDevices >= 1 && properties.numDevices <= settings().devices;
  if (!few || properties.size == 0 || properties.flags != 0) return kErrorInvalidValue;
  const bool shared = (properties.handleTypes & ~uint64_t{kHandlePosixDescriptor}) == 0;
  return shared ? kSuccess : kErrorNotSupported;
}

/// An entry point about the object of that handle.
template <class Body>
CUresult on_multicast(CUmemGenericAllocationHandle handle, Body body) {
  return entered([&]() -> CUresult {
    const std::shared_ptr<Multicast> object = entry_of(handle).multicast;
    return object == nullptr ? kErrorInvalidValue : body(*object);
  });
}

}  // namespace

Handles& handles() {
  static Handles* const all = new Handles;
  return *all;
}

CUmemGenericAllocationHandle give_out(Handles::Entry entry) {
  const std::lock_guard lock(handles().mutex);
  const CUmemGenericAllocationHandle handle = addresses().next_id();
  handles().entries[handle] = std::move(entry);
  count(&SoftdevStatistics::live_handles, 1);
  return handle;
}

Handles::Entry entry_of(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(handles().mutex);
  const auto found = handles().entries.find(handle);
  return found != handles().entries.end() ? found->second : Handles::Entry{};
}

CUresult cuMulticastGetGranularity(size_t* bytes, const CUmulticastObjectProp* properties,
                                   CUmulticastGranularity_flags) {
  return entered([&] {
    const CUresult result = check(*properties);
    if (result == kSuccess) *bytes = kMulticastUnit;
    return result;
  });
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                           const CUmulticastObjectProp* properties) {
  return entered([&] {
    const CUresult result = check(*properties);
    if (result != kSuccess) return result;
    if (properties->size % kMulticastUnit != 0) return kErrorInvalidValue;
    auto made = Multicast::make(properties->numDevices, properties->size);
    if (made == nullptr) return kErrorOutOfMemory;
    *handle = give_out({.multicast = std::move(made)});
    return kSuccess;
  });
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  return on_multicast(handle, [&](Multicast& object) {
    if (!is_device(device)) return kErrorInvalidDevice;
    return has_multicast(device) ? object.add(device) : kErrorNotSupported;
  });
}

extern "C" {

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t from, size_t bytes,
                            unsigned long long flags) {
  return on_multicast(handle, [&](Multicast& object) {
    std::shared_ptr<Physical> physical = entry_of(memory).physical;
    if (physical == nullptr || flags != 0) return kErrorInvalidValue;
    return object.bind(offset, std::move(physical), from, bytes);
  });
}

}  // extern "C"

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                           size_t bytes) {
  return on_multicast(handle,
                      [&](Multicast& object) { return object.unbind(device, offset, bytes); });
}

}  // namespace softdev
