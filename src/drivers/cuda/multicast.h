// Memory of several devices behind one address: a kernel that loads from it gets the reduction of
// what all of them have there, and what it stores there all of them get (PTX's multimem
// instructions). The switch between the devices does it. Other instructions and copies may not
// touch such an address; each device's memory keeps the address that it has besides.
//
// The driver's rules are those of its functions cuMulticast*: an object is made for so many
// devices, each is added, then memory of each is bound and the object is mapped. Binding and
// mapping wait in the driver until all devices are added, so ranks tell each other between these
// steps (src/engines/cuda/multicast_ring.h).
//
// Threads: any, one at a time. Units: bytes. Contexts: those that DeviceMemory needs.
#pragma once

#include <cstddef>

#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/memory.h"

namespace tutti::drivers::cuda {

/// kUnsupported: the driver has no multicast, or the device is in no team; the message says which.
Status check_multicast(const Cuda& cuda, const DeviceFacts& facts);

/// Bound memory is a multiple of so many bytes, in a team of so many devices.
Result<size_t> multicast_unit(const Cuda& cuda, unsigned devices);

/// One device's share in such an object, and the object itself as this process has it.
class MulticastMemory {
 public:
  /// For a team of so many devices, with `bytes` of each, a multiple of multicast_unit(). Nothing
  /// is made.
  MulticastMemory(const Cuda& cuda, unsigned devices, size_t bytes)
      : cuda_(&cuda), devices_(devices), bytes_(bytes) {}
  MulticastMemory(MulticastMemory&& other) noexcept;
  MulticastMemory& operator=(MulticastMemory&&) = delete;
  ~MulticastMemory();

  /// The object: one process makes it, others import it.
  Status make();
  Status import(int descriptor);
  /// A new descriptor of it, by which other processes import it.
  Result<Fd> export_descriptor() const;
  Status add(CUdevice device);
  /// When all devices are added: binds memory of that device, as long as this is, and maps the
  /// object for it. Loads find something when all devices have done so.
  Status join(const DeviceMemory& memory, CUdevice device);
  /// Takes all of it back, and keeps the address; it can be made again, at the same address. No
  /// device of the team uses it any more.
  void release();

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  const Cuda* cuda_;
  unsigned devices_;
  size_t bytes_;
  CUmemGenericAllocationHandle handle_ = 0;  // 0: there is no object
  CUdeviceptr address_ = 0;                  // 0: no addresses are reserved
  CUdevice bound_ = -1;                      // whose memory is; -1: nobody's
  bool mapped_ = false;
};

}  // namespace tutti::drivers::cuda
