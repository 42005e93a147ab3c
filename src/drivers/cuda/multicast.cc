#include "src/drivers/cuda/multicast.h"

#include <cstdint>
#include <utility>

#include "src/drivers/cuda/context.h"

namespace tutti::drivers::cuda {
namespace {

CUmulticastObjectProp properties_of(unsigned devices, size_t bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = devices;
  properties.size = bytes;
  properties.handleTypes = kHandlePosixDescriptor;
  return properties;
}

bool has_functions(const Cuda& cuda) {
  bool all = true;
#define TUTTI_CUDA_HAS(name, version, parameters) all = all && cuda.call.name != nullptr;
  TUTTI_CUDA_OPTIONAL_FUNCTIONS(TUTTI_CUDA_HAS)
#undef TUTTI_CUDA_HAS
  return all;
}

}  // namespace

Status check_multicast(const Cuda& cuda, const DeviceFacts& facts) {
  if (!has_functions(cuda)) {
    return Status::unsupported("the CUDA driver has no multicast, which came with CUDA 12.1");
  }
  if (!facts.multicast) {
    return Status::unsupported("its device (" + facts.name + ") has no multicast");
  }
  if (!facts.virtual_memory || !facts.posix_descriptors) {
    return Status::unsupported("its device (" + facts.name +
                               ") has no memory that processes can share by descriptors");
  }
  return {};
}

Result<size_t> multicast_unit(const Cuda& cuda, unsigned devices) {
  // The size is that of nothing yet, but 0 is none.
  const CUmulticastObjectProp properties = properties_of(devices, size_t{1} << 30);
  size_t unit = 0;
  const CUresult result =
      cuda.call.cuMulticastGetGranularity(&unit, &properties, kMulticastMinimum);
  if (result != kSuccess) return cuda.error_status(result, "cuMulticastGetGranularity");
  if (unit == 0) return Status::system_error("cuMulticastGetGranularity says 0 bytes");
  return unit;
}

MulticastMemory::MulticastMemory(MulticastMemory&& other) noexcept
    : cuda_(other.cuda_),
      devices_(other.devices_),
      bytes_(other.bytes_),
      handle_(std::exchange(other.handle_, 0)),
      address_(std::exchange(other.address_, 0)),
      bound_(std::exchange(other.bound_, -1)),
      mapped_(std::exchange(other.mapped_, false)) {}

MulticastMemory::~MulticastMemory() {
  release();
  if (address_ == 0) return;
  const UncapturedScope uncaptured(*cuda_);
  cuda_->call.cuMemAddressFree(address_, bytes_);
}

Status MulticastMemory::make() {
  const UncapturedScope uncaptured(*cuda_);
  const CUmulticastObjectProp properties = properties_of(devices_, bytes_);
  return cuda_->check(cuda_->call.cuMulticastCreate(&handle_, &properties), "cuMulticastCreate");
}

Status MulticastMemory::import(int descriptor) {
  Result<CUmemGenericAllocationHandle> handle = import_handle(*cuda_, descriptor);
  if (!handle.ok()) return handle.status();
  handle_ = handle.value();
  return {};
}

Result<Fd> MulticastMemory::export_descriptor() const { return export_handle(*cuda_, handle_); }

Status MulticastMemory::add(CUdevice device) {
  const UncapturedScope uncaptured(*cuda_);
  return cuda_->check(cuda_->call.cuMulticastAddDevice(handle_, device), "cuMulticastAddDevice");
}

Status MulticastMemory::join(const DeviceMemory& memory, CUdevice device) {
  const UncapturedScope uncaptured(*cuda_);
  CUresult result = cuda_->call.cuMulticastBindMem(handle_, 0, memory.handle(), 0, bytes_, 0);
  if (result != kSuccess) return cuda_->error_status(result, "cuMulticastBindMem");
  bound_ = device;
  if (address_ == 0) {
    Result<size_t> unit = multicast_unit(*cuda_, devices_);
    if (!unit.ok()) return unit.status();
    result = cuda_->call.cuMemAddressReserve(&address_, bytes_, unit.value(), 0, 0);
    if (result != kSuccess) address_ = 0;
    if (result != kSuccess) return cuda_->error_status(result, "cuMemAddressReserve");
  }
  result = cuda_->call.cuMemMap(address_, bytes_, 0, handle_, 0);
  if (result != kSuccess) return cuda_->error_status(result, "cuMemMap");
  mapped_ = true;
  const CUmemAccessDesc access{{kLocationDevice, device}, kAccessReadWrite};
  return cuda_->check(cuda_->call.cuMemSetAccess(address_, bytes_, &access, 1), "cuMemSetAccess");
}

void MulticastMemory::release() {
  if (handle_ == 0) return;
  const UncapturedScope uncaptured(*cuda_);
  if (std::exchange(mapped_, false)) cuda_->call.cuMemUnmap(address_, bytes_);
  const CUdevice device = std::exchange(bound_, -1);
  if (device >= 0) cuda_->call.cuMulticastUnbind(handle_, device, 0, bytes_);
  cuda_->call.cuMemRelease(std::exchange(handle_, 0));
}

}  // namespace tutti::drivers::cuda
