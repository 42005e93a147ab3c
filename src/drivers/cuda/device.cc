#include "src/drivers/cuda/device.h"

#include <cstdio>
#include <cstring>

#include "src/base/words.h"

namespace tutti::drivers::cuda {

Result<int> device_attribute(const Cuda& cuda, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  const CUresult result = cuda.call.cuDeviceGetAttribute(&value, attribute, device);
  if (result != kSuccess) return cuda.error_status(result, "cuDeviceGetAttribute");
  return value;
}

std::string DeviceFacts::identity() const {
  return to_hex({reinterpret_cast<const char*>(uuid.data()), uuid.size()});
}

Result<bool> reaches(const Cuda& cuda, CUdevice device, CUdevice peer) {
  if (device == peer) return true;
  int can = 0;
  const CUresult result = cuda.call.cuDeviceCanAccessPeer(&can, device, peer);
  if (result != kSuccess) return cuda.error_status(result, "cuDeviceCanAccessPeer");
  return can != 0;
}

Result<DeviceFacts> DeviceFacts::read(const Cuda& cuda, CUdevice device) {
  DeviceFacts facts;
  facts.device = device;
  std::array<char, 128> name{};
  CUuuid uuid{};
  CUresult result = cuda.call.cuDeviceGetName(name.data(), name.size() - 1, device);
  if (result != kSuccess) return cuda.error_status(result, "cuDeviceGetName");
  result = cuda.call.cuDeviceGetUuid(&uuid, device);
  if (result != kSuccess) return cuda.error_status(result, "cuDeviceGetUuid");
  facts.name = name.data();
  std::memcpy(facts.uuid.data(), uuid.bytes, facts.uuid.size());
  Status failed;
  const auto ask = [&](CUdevice_attribute attribute) {
    const Result<int> value = device_attribute(cuda, device, attribute);
    if (!value.ok()) failed = value.status();
    return value.ok() ? value.value() : 0;
  };
  std::array<char, 32> address{};
  std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.0",
                static_cast<unsigned>(ask(kDevicePciDomainId)),
                static_cast<unsigned>(ask(kDevicePciBusId)),
                static_cast<unsigned>(ask(kDevicePciDeviceId)));
  facts.bus_address = address.data();
  facts.capability = 10 * ask(kDeviceCapabilityMajor) + ask(kDeviceCapabilityMinor);
  facts.copy_engines = ask(kDeviceCopyEngines);
  facts.memory_ops_64 = ask(kDevice64BitMemoryOps) != 0;
  facts.flushes_remote_writes = ask(kDeviceCanFlushRemoteWrites) != 0;
  facts.virtual_memory = ask(kDeviceVirtualMemory) != 0;
  facts.posix_descriptors = ask(kDeviceHandlePosixDescriptor) != 0;
  facts.multicast = ask(kDeviceMulticast) != 0;
  facts.registers_host_memory = ask(kDeviceHostRegister) != 0;
  facts.host_addresses_work = ask(kDeviceHostPointerForRegistered) != 0;
  if (!failed.ok()) return failed;
  return facts;
}

Status check_access(const Cuda& cuda, CUdevice device, const std::string& peer) {
  for (int number = 0; number < cuda.devices(); ++number) {
    CUdevice other = 0;
    Status found = cuda.check(cuda.call.cuDeviceGet(&other, number), "cuDeviceGet");
    if (!found.ok()) return found;
    const Result<DeviceFacts> facts = DeviceFacts::read(cuda, other);
    if (!facts.ok()) return facts.status();
    if (facts.value().identity() != peer) continue;
    const Result<bool> can = reaches(cuda, device, other);
    if (!can.ok()) return can.status();
    if (!can.value()) return Status::unsupported("there is no peer access between the two");
  }
  return {};
}

Result<AddressFacts> inspect_address(const Cuda& cuda, const void* address) {
  AddressFacts facts;
  unsigned type = 0;
  unsigned managed = 0;
  std::array<CUpointer_attribute, 7> attributes = {
      kPointerMemoryType, kPointerIsManaged,  kPointerDeviceOrdinal, kPointerContext,
      kPointerBufferId,   kPointerRangeStart, kPointerRangeBytes};
  std::array<void*, 7> values = {
      &type, &managed, &facts.device, &facts.context, &facts.buffer_id, &facts.base, &facts.bytes};
  const CUresult result =
      cuda.call.cuPointerGetAttributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                       values.data(), reinterpret_cast<CUdeviceptr>(address));
  // An unknown address has a type of none; documented alternatives are these two errors.
  const bool unknown = result == kErrorInvalidValue || result == kErrorInvalidContext;
  if (unknown || (result == kSuccess && type == 0 && managed == 0)) return AddressFacts{};
  if (result != kSuccess) return cuda.error_status(result, "cuPointerGetAttributes");
  facts.kind = managed != 0                ? AddressKind::kManaged
               : type == kMemoryTypeDevice ? AddressKind::kDevice
                                           : AddressKind::kPinned;
  if (facts.kind == AddressKind::kPinned) facts.device = -1;
  return facts;
}

}  // namespace tutti::drivers::cuda
