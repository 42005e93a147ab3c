#include "src/drivers/cuda/memory.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "src/base/clock.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/stream.h"

namespace tutti::drivers::cuda {
namespace {

CUmemAllocationProp exportable_on(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = kAllocationPinned;
  properties.requestedHandleTypes = kHandlePosixDescriptor;
  properties.location = {kLocationDevice, device};
  return properties;
}

/// The driver's error with the size that was asked for.
Status with_bytes(const Status& error, size_t bytes) {
  return {error.code(), fmt::format("{} ({} bytes)", error.message(), bytes)};
}

/// `bytes`: of whole units of the device.
Result<CUmemGenericAllocationHandle> create_handle(const Cuda& cuda, CUdevice device,
                                                   size_t bytes) {
  const CUmemAllocationProp properties = exportable_on(device);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuda.call.cuMemCreate(&handle, bytes, &properties, 0);
  if (result != kSuccess) return with_bytes(cuda.error_status(result, "cuMemCreate"), bytes);
  return handle;
}

}  // namespace

Result<Fd> export_handle(const Cuda& cuda, CUmemGenericAllocationHandle handle) {
  const UncapturedScope uncaptured(cuda);
  int descriptor = -1;
  const CUresult result =
      cuda.call.cuMemExportToShareableHandle(&descriptor, handle, kHandlePosixDescriptor, 0);
  if (result != kSuccess) return cuda.error_status(result, "cuMemExportToShareableHandle");
  Fd kept(descriptor);
  if (!kept.valid()) return errno_status("the descriptor of device memory");
  return kept;
}

Result<CUmemGenericAllocationHandle> import_handle(const Cuda& cuda, int descriptor) {
  const UncapturedScope uncaptured(cuda);
  CUmemGenericAllocationHandle handle = 0;
  // The interface takes the descriptor in the place of a pointer.
  void* const as_pointer = reinterpret_cast<void*>(static_cast<intptr_t>(descriptor));
  const CUresult result =
      cuda.call.cuMemImportFromShareableHandle(&handle, as_pointer, kHandlePosixDescriptor);
  if (result != kSuccess) return cuda.error_status(result, "cuMemImportFromShareableHandle");
  return handle;
}

Result<DeviceMemory> DeviceMemory::allocate(const Cuda& cuda, CUdevice device, size_t bytes) {
  if (bytes == 0) return Status::invalid_argument("device memory of 0 bytes");
  const UncapturedScope uncaptured(cuda);
  const CUmemAllocationProp properties = exportable_on(device);
  size_t unit = 0;
  const CUresult result =
      cuda.call.cuMemGetAllocationGranularity(&unit, &properties, kGranularityRecommended);
  if (result != kSuccess) return cuda.error_status(result, "cuMemGetAllocationGranularity");
  if (bytes > SIZE_MAX - unit) return Status::invalid_argument("device memory of too many bytes");
  const size_t whole = (bytes + unit - 1) / unit * unit;
  const Result<CUmemGenericAllocationHandle> handle = create_handle(cuda, device, whole);
  if (!handle.ok()) return handle.status();
  DeviceMemory memory(cuda, handle.value(), whole);
  if (Status mapped = memory.map_for(device); !mapped.ok()) return mapped;
  return memory;
}

Result<DeviceMemory> DeviceMemory::import(const Cuda& cuda, int descriptor, size_t bytes,
                                          CUdevice device) {
  const UncapturedScope uncaptured(cuda);
  const Result<CUmemGenericAllocationHandle> handle = import_handle(cuda, descriptor);
  if (!handle.ok()) return handle.status();
  DeviceMemory memory(cuda, handle.value(), bytes);
  if (Status mapped = memory.map_for(device); !mapped.ok()) return mapped;
  return memory;
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : cuda_(other.cuda_),
      handle_(std::exchange(other.handle_, 0)),
      bytes_(other.bytes_),
      address_(std::exchange(other.address_, 0)),
      mapped_(std::exchange(other.mapped_, false)) {}

Status DeviceMemory::map_for(CUdevice device) {
  CUresult result = kSuccess;
  if (address_ == 0) result = cuda_->call.cuMemAddressReserve(&address_, bytes_, 0, 0, 0);
  if (result != kSuccess) {
    address_ = 0;
    return with_bytes(cuda_->error_status(result, "cuMemAddressReserve"), bytes_);
  }
  result = cuda_->call.cuMemMap(address_, bytes_, 0, handle_, 0);
  if (result != kSuccess) return with_bytes(cuda_->error_status(result, "cuMemMap"), bytes_);
  mapped_ = true;
  return let_reach(device);
}

DeviceMemory::~DeviceMemory() {
  release();
  if (address_ == 0) return;
  const UncapturedScope uncaptured(*cuda_);
  cuda_->call.cuMemAddressFree(address_, bytes_);
}

void DeviceMemory::release() {
  if (handle_ == 0) return;
  const UncapturedScope uncaptured(*cuda_);
  if (std::exchange(mapped_, false)) cuda_->call.cuMemUnmap(address_, bytes_);
  cuda_->call.cuMemRelease(std::exchange(handle_, 0));
}

Status DeviceMemory::restore(CUdevice device) {
  const UncapturedScope uncaptured(*cuda_);
  return map_again(create_handle(*cuda_, device, bytes_), device);
}

Status DeviceMemory::restore(int descriptor, CUdevice device) {
  const UncapturedScope uncaptured(*cuda_);
  return map_again(import_handle(*cuda_, descriptor), device);
}

Status DeviceMemory::map_again(const Result<CUmemGenericAllocationHandle>& handle,
                               CUdevice device) {
  if (!handle.ok()) return handle.status();
  handle_ = handle.value();
  Status mapped = map_for(device);
  if (!mapped.ok()) release();
  return mapped;
}

Result<Fd> DeviceMemory::export_descriptor() const { return export_handle(*cuda_, handle_); }

Status DeviceMemory::let_reach(CUdevice device) const {
  const UncapturedScope uncaptured(*cuda_);
  const CUmemAccessDesc access{{kLocationDevice, device}, kAccessReadWrite};
  return cuda_->check(cuda_->call.cuMemSetAccess(address_, bytes_, &access, 1), "cuMemSetAccess");
}

Result<Fd> export_mapped(const Cuda& cuda, CUdeviceptr base) {
  const UncapturedScope uncaptured(cuda);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result =
      cuda.call.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(base));
  if (result != kSuccess) {
    return Status::unsupported(
        "the memory is none that processes can share by descriptors (of tuttiMemAllocFor, or of "
        "cuMemCreate with such a handle)");
  }
  Result<Fd> exported = export_handle(cuda, handle);
  cuda.call.cuMemRelease(handle);
  if (exported.ok()) return exported;
  return Status::unsupported("the memory was not made to be shared by descriptors: " +
                             std::string(exported.status().message()));
}

Result<Fd> export_dmabuf(const Cuda& cuda, CUdeviceptr address, size_t bytes) {
  const UncapturedScope uncaptured(cuda);
  int descriptor = -1;
  const CUresult result =
      cuda.call.cuMemGetHandleForAddressRange(&descriptor, address, bytes, kRangeDmaBuf, 0);
  if (result != kSuccess) {
    const Status error = cuda.error_status(result, "cuMemGetHandleForAddressRange");
    return Status::unsupported("the driver gives no dmabuf of the device's memory: " +
                               std::string(error.message()));
  }
  Fd kept(descriptor);
  if (!kept.valid()) return errno_status("the dmabuf of device memory");
  return kept;
}

Result<PinnedMemory> PinnedMemory::allocate(const Cuda& cuda, size_t bytes) {
  const UncapturedScope uncaptured(cuda);
  void* data = nullptr;
  const CUresult result =
      cuda.call.cuMemHostAlloc(&data, bytes, kHostAllocPortable | kHostAllocDeviceMap);
  if (result != kSuccess) return with_bytes(cuda.error_status(result, "cuMemHostAlloc"), bytes);
  return PinnedMemory(cuda, data, bytes);
}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  const UncapturedScope uncaptured(*cuda_);
  cuda_->call.cuMemFreeHost(data_);
}

Result<RegisteredMemory> RegisteredMemory::create(const Cuda& cuda, void* data, size_t bytes) {
  const UncapturedScope uncaptured(cuda);
  CUresult result =
      cuda.call.cuMemHostRegister(data, bytes, kHostRegisterPortable | kHostRegisterDeviceMap);
  if (result != kSuccess) return with_bytes(cuda.error_status(result, "cuMemHostRegister"), bytes);
  RegisteredMemory memory(cuda, data);
  result = cuda.call.cuMemHostGetDevicePointer(&memory.address_, data, 0);
  if (result != kSuccess) return cuda.error_status(result, "cuMemHostGetDevicePointer");
  return memory;
}

RegisteredMemory::~RegisteredMemory() {
  if (data_ == nullptr) return;
  const UncapturedScope uncaptured(*cuda_);
  cuda_->call.cuMemHostUnregister(data_);
}

Status clear_memory(const Cuda& cuda, CUdeviceptr address, size_t bytes, uint64_t patience_ns) {
  constexpr auto kNap = std::chrono::microseconds(20);
  Result<CudaStream> stream = CudaStream::create(cuda);
  if (!stream.ok()) return stream.status();
  const UncapturedScope uncaptured(cuda);
  const CUstream own = stream.value().get();
  Status put = cuda.check(cuda.call.cuMemsetD8Async(address, 0, bytes, own), "cuMemsetD8Async");
  if (!put.ok()) return put;
  const uint64_t until_ns = monotonic_ns() + patience_ns;
  while (monotonic_ns() < until_ns) {
    const Result<bool> done = stream.value().is_done();
    if (!done.ok()) return done.status();
    if (done.value()) return {};
    std::this_thread::sleep_for(kNap);
  }
  return Status::unsupported("its device was busy with other work all the time");
}

}  // namespace tutti::drivers::cuda
