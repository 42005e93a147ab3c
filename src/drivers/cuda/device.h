// Facts about devices, and about addresses as the driver knows them.
//
// Threads: any. No function here waits for a device or needs a current context.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "src/drivers/cuda/driver.h"

namespace tutti::drivers::cuda {

/// Read once when a device is first used.
struct DeviceFacts {
  CUdevice device = 0;
  std::string name;
  std::array<unsigned char, 16> uuid{};  // equal in all processes that see this device
  std::string bus_address;               // PCI: "0000:18:00.0"
  int capability = 0;                    // of computing: 10 * major + minor
  int copy_engines = 0;
  bool memory_ops_64 = false;  // stream memory operations on 64 bits
  bool flushes_remote_writes = false;
  bool virtual_memory = false;     // DeviceMemory works
  bool posix_descriptors = false;  // and can be exported
  bool multicast = false;          // it can be in a team of multicast (multicast.h)
  bool registers_host_memory = false;
  bool host_addresses_work = false;  // registered memory has one address on host and device

  /// The uuid in hexadecimal digits.
  std::string identity() const;

  static Result<DeviceFacts> read(const Cuda& cuda, CUdevice device);
};

/// The value of one attribute.
Result<int> device_attribute(const Cuda& cuda, CUdevice device, CUdevice_attribute attribute);

/// Whether the device's copies and kernels can use memory of `peer`.
Result<bool> reaches(const Cuda& cuda, CUdevice device, CUdevice peer);

/// The same of a device by its identity. One that this process does not see may be reached.
Status check_access(const Cuda& cuda, CUdevice device, const std::string& peer);

enum class AddressKind : uint8_t {
  kHost,    // ordinary memory, of which the driver knows nothing
  kPinned,  // host memory of the driver's, or registered with it
  kDevice,
  kManaged,  // migrates between host and device
};

/// An address as the driver knows it.
struct AddressFacts {
  AddressKind kind = AddressKind::kHost;
  CUdevice device = -1;         // of kDevice and kManaged
  CUcontext context = nullptr;  // null for memory of the virtual memory API: it belongs to none
  uint64_t buffer_id = 0;       // of the allocation; no later allocation of the process has it
  CUdeviceptr base = 0;         // the allocation, or the mapped range
  size_t bytes = 0;
};

/// One call of the driver. An address that it does not know is kHost, and no error.
Result<AddressFacts> inspect_address(const Cuda& cuda, const void* address);

}  // namespace tutti::drivers::cuda
