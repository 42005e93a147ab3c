// Memory that Tutti allocates or makes known to the driver.
//
// Owns: each object its memory, mapping or registration. Units: bytes. Threads: any, one at a time.
// Contexts: a context of the device must be current where this says so. Making and ending these
// objects may wait for all work of the device (the driver does not say that it will not): they
// belong to the making of a communicator, never to a call. Where work of the device waits for a
// peer that waits for this host thread, ending one would never return.
#pragma once

#include <cstddef>
#include <utility>

#include "src/base/io.h"
#include "src/drivers/cuda/driver.h"

namespace tutti::drivers::cuda {

/// A new descriptor of an object of the driver, to be sent to another process, and what that gets
/// of it: a handle of its own. The descriptor stays the caller's and may be closed afterwards.
Result<Fd> export_handle(const Cuda& cuda, CUmemGenericAllocationHandle handle);
Result<CUmemGenericAllocationHandle> import_handle(const Cuda& cuda, int descriptor);

/// Device memory by the virtual memory API: it can be handed to other processes as a descriptor,
/// and lives until the last process that has it lets go, also where the one that made it is killed.
/// No context needs to be current. Its contents are undefined at first.
class DeviceMemory {
 public:
  /// At least `bytes` (rounded up to the device's granularity, 2 MiB usually), readable and
  /// writable by this device.
  static Result<DeviceMemory> allocate(const Cuda& cuda, CUdevice device, size_t bytes);
  /// Memory that another process exported, as `device` of this process reaches it. `bytes` is
  /// bytes() of the exporter's. The descriptor stays the caller's and may be closed afterwards.
  static Result<DeviceMemory> import(const Cuda& cuda, int descriptor, size_t bytes,
                                     CUdevice device);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory();

  /// A new descriptor for it, to be sent to another process.
  Result<Fd> export_descriptor() const;
  /// Lets another device of this process read and write it, too.
  Status let_reach(CUdevice device) const;

  /// Gives the memory back. Its addresses stay reserved, and nothing may touch them, until one of
  /// the next two: other memory, of undefined contents, at the same addresses. After an error of
  /// theirs it is released as before.
  void release();
  Status restore(CUdevice device);
  /// With memory that another process exported, as import() takes it.
  Status restore(int descriptor, CUdevice device);

  CUdeviceptr address() const { return address_; }
  size_t bytes() const { return bytes_; }
  /// Of the driver; 0: released.
  CUmemGenericAllocationHandle handle() const { return handle_; }

 private:
  DeviceMemory(const Cuda& cuda, CUmemGenericAllocationHandle handle, size_t bytes)
      : cuda_(&cuda), handle_(handle), bytes_(bytes) {}
  Status map_for(CUdevice device);
  Status map_again(const Result<CUmemGenericAllocationHandle>& handle, CUdevice device);

  const Cuda* cuda_;
  CUmemGenericAllocationHandle handle_;  // 0: released
  size_t bytes_;
  CUdeviceptr address_ = 0;  // 0: no addresses are reserved
  bool mapped_ = false;
};

/// Fills it with zeros, in a stream of its own, and waits until that is done. kUnsupported: the
/// device did not come to it within `patience_ns`, and may still do so later. A context of the
/// device is current.
Status clear_memory(const Cuda& cuda, CUdeviceptr address, size_t bytes, uint64_t patience_ns);

/// A descriptor for the allocation, or a whole range of it that is mapped, which begins at `base`:
/// of the virtual memory API, by whomever. kUnsupported: it is of another kind, or was not made to
/// be given to other processes.
Result<Fd> export_mapped(const Cuda& cuda, CUdeviceptr base);

/// A descriptor of a dmabuf that is this range of a device's memory, by which cards reach it. Whole
/// pages of the host. kUnsupported, with the reason: the driver, its kernel module or the memory's
/// kind has none.
Result<Fd> export_dmabuf(const Cuda& cuda, CUdeviceptr address, size_t bytes);

/// Host memory of the driver's, which every device of the process reaches at its host address. A
/// context must be current when it is made and when it ends. Contents undefined at first.
class PinnedMemory {
 public:
  static Result<PinnedMemory> allocate(const Cuda& cuda, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept
      : cuda_(other.cuda_), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  ~PinnedMemory();

  void* data() const { return data_; }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  PinnedMemory(const Cuda& cuda, void* data, size_t bytes)
      : cuda_(&cuda), data_(data), bytes_(bytes) {}

  const Cuda* cuda_;
  void* data_;
  size_t bytes_;
};

/// Host memory of somebody else's (shared memory, for example) that copies and memory operations
/// may name while this lives. Whole pages. A context must be current when it is made and when it
/// ends. Lifetime: it ends before the memory is unmapped.
class RegisteredMemory {
 public:
  static Result<RegisteredMemory> create(const Cuda& cuda, void* data, size_t bytes);
  RegisteredMemory(RegisteredMemory&& other) noexcept
      : cuda_(other.cuda_), data_(std::exchange(other.data_, nullptr)), address_(other.address_) {}
  RegisteredMemory& operator=(RegisteredMemory&&) = delete;
  ~RegisteredMemory();

  /// Where devices reach data()[0]: not always the host's address.
  CUdeviceptr address() const { return address_; }
  void* data() const { return data_; }

 private:
  RegisteredMemory(const Cuda& cuda, void* data) : cuda_(&cuda), data_(data) {}

  const Cuda* cuda_;
  void* data_;
  CUdeviceptr address_ = 0;
};

}  // namespace tutti::drivers::cuda
