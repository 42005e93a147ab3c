#include "src/engines/cuda/shared_ring.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <utility>

#include "src/exec/arena_map.h"

namespace tutti::engines::cuda {

using drivers::cuda::Cuda;
using drivers::cuda::CUdevice;
using drivers::cuda::DeviceMemory;
using drivers::cuda::RegisteredMemory;
using transport::Arena;

Result<SharedRing> SharedRing::make(const Cuda& cuda, CUdevice device, RingPlace place,
                                    size_t bytes) {
  if (place == RingPlace::kPinned) {
    return pin(cuda, Arena::create("tutti-device-ring", exec::ArenaLayout::page(bytes)));
  }
  Result<DeviceMemory> memory = DeviceMemory::allocate(cuda, device, bytes);
  if (!memory.ok()) return memory.status();
  return SharedRing(std::move(memory).value());
}

Result<SharedRing> SharedRing::import(const Cuda& cuda, CUdevice device, RingPlace place,
                                      Fd descriptor, size_t bytes) {
  if (place == RingPlace::kPinned) {
    Result<Arena> arena = Arena::adopt(descriptor.release(), bytes);
    if (arena.ok()) arena.value().close_descriptor();
    return pin(cuda, std::move(arena));
  }
  Result<DeviceMemory> memory = DeviceMemory::import(cuda, descriptor.get(), bytes, device);
  if (!memory.ok()) return memory.status();
  return SharedRing(std::move(memory).value());
}

Result<SharedRing> SharedRing::pin(const Cuda& cuda, Result<Arena> arena) {
  if (!arena.ok()) return arena.status();
  Result<RegisteredMemory> pages =
      RegisteredMemory::create(cuda, arena.value().data(), arena.value().bytes());
  if (!pages.ok()) return pages.status();
  return SharedRing(cuda, std::move(arena).value(), std::move(pages).value());
}

Result<Fd> SharedRing::export_descriptor() const {
  if (device_) return device_->export_descriptor();
  Fd copied(fcntl(arena_.fd(), F_DUPFD_CLOEXEC, 0));
  if (!copied.valid()) return errno_status("the descriptor of a ring in pinned memory");
  return copied;
}

drivers::cuda::CUdeviceptr SharedRing::address() const {
  return device_ ? device_->address() : pinned_at_;
}

size_t SharedRing::bytes() const { return device_ ? device_->bytes() : arena_.bytes(); }

// Whichever process does so last takes the pages out of the shared memory, which stays.
void SharedRing::release() {
  if (device_) {
    device_->release();
    return;
  }
  pages_.reset();
  (void)madvise(arena_.data(), arena_.bytes(), MADV_REMOVE);
}

Status SharedRing::restore(CUdevice device, Fd descriptor) {
  if (!device_) return pin_again();
  return descriptor.valid() ? device_->restore(descriptor.get(), device) : device_->restore(device);
}

Status SharedRing::pin_again() {
  Result<RegisteredMemory> pages = RegisteredMemory::create(*cuda_, arena_.data(), arena_.bytes());
  if (!pages.ok()) return pages.status();
  if (pages.value().address() != pinned_at_) {
    return Status::system_error("pinned memory came back at another address of the device");
  }
  pages_.emplace(std::move(pages).value());
  return {};
}

}  // namespace tutti::engines::cuda
