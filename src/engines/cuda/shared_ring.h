// A rank's ring as one process has it: memory of the rank's device, or pinned memory of the host,
// where some peer's device does not reach that one. The processes of the host share it by a
// descriptor.
//
// Owns: the memory, or this process's mapping of it. Threads: one at a time. Contexts: one of the
// device is current when it is made and when it ends. Errors: kUnsupported, or kSystemError.
#pragma once

#include <cstddef>
#include <optional>

#include "src/base/io.h"
#include "src/drivers/cuda/memory.h"
#include "src/transport/arena.h"

namespace tutti::engines::cuda {

enum class RingPlace : uint8_t { kDevice, kPinned };

class SharedRing {
 public:
  /// At least `bytes`, of undefined contents.
  static Result<SharedRing> make(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
                                 RingPlace place, size_t bytes);
  /// Another rank's, as `device` of this process reaches it. `bytes`: its bytes().
  static Result<SharedRing> import(const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
                                   RingPlace place, Fd descriptor, size_t bytes);

  /// A new one, which other processes can import it by. Of what make() returned.
  Result<Fd> export_descriptor() const;
  drivers::cuda::CUdeviceptr address() const;
  size_t bytes() const;
  /// Null: it lies in pinned memory.
  const drivers::cuda::DeviceMemory* device_memory() const { return device_ ? &*device_ : nullptr; }
  RingPlace place() const { return device_ ? RingPlace::kDevice : RingPlace::kPinned; }

  /// Gives the memory back. Its addresses stay, and nothing may touch them, until restore(): other
  /// memory, of undefined contents, at the same addresses. After an error of that it is released.
  void release();
  /// `descriptor`: of what import() returned, a new one of its owner's; else none.
  Status restore(drivers::cuda::CUdevice device, Fd descriptor);

 private:
  explicit SharedRing(drivers::cuda::DeviceMemory memory) { device_.emplace(std::move(memory)); }
  static Result<SharedRing> pin(const drivers::cuda::Cuda& cuda, Result<transport::Arena> arena);
  SharedRing(const drivers::cuda::Cuda& cuda, transport::Arena arena,
             drivers::cuda::RegisteredMemory pages)
      : cuda_(&cuda), pinned_at_(pages.address()), arena_(std::move(arena)) {
    pages_.emplace(std::move(pages));
  }
  Status pin_again();

  std::optional<drivers::cuda::DeviceMemory> device_;  // or the others
  const drivers::cuda::Cuda* cuda_ = nullptr;
  drivers::cuda::CUdeviceptr pinned_at_ = 0;
  transport::Arena arena_;
  std::optional<drivers::cuda::RegisteredMemory> pages_;  // ends before arena_
};

}  // namespace tutti::engines::cuda
