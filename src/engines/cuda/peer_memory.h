// Device memory that the ranks of a host have registered together (exec::PeerMemory): each that has
// some gives the others a descriptor of its allocation, and maps theirs.
//
// A mapping keeps the memory behind it, so nothing has to be told or awaited when a rank frees its
// own or dies: what the peers still read is there until they let go. Memory that is shared by
// handles of another kind (cuIpcGetMemHandle) has no such promise and is never exported.
//
// Owns: the mappings. Threads: share() the one that registers; any else. Lifetime: a mapping ends
// in a thread of its own (drivers::cuda::Reaper), since to end it may be to wait for the device.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/drivers/cuda/device.h"
#include "src/drivers/cuda/memory.h"
#include "src/engines/cuda/agreement.h"
#include "src/exec/stream_rank.h"

namespace tutti::engines::cuda {

/// Where the buffers of all ranks lie, by rank; none, if no plan names them.
void find_places(const exec::PeerBuffers& buffers, std::vector<drivers::cuda::CUdeviceptr>& places);

class CudaPeerMemory final : public exec::PeerMemory {
 public:
  /// Collective (exec::Device::share). `device` is the rank's; its context is current.
  static Result<std::shared_ptr<const exec::PeerMemory>> share(const drivers::cuda::Cuda& cuda,
                                                               drivers::cuda::CUdevice device,
                                                               const exec::DeviceGroup& group,
                                                               std::byte* memory, uint64_t bytes);
  /// The same of a rank without a device, beside the others' share().
  static Result<std::shared_ptr<const exec::PeerMemory>> take_part(const exec::DeviceGroup& group,
                                                                   bool brings_memory);

  std::span<std::byte* const> ranges() const override { return ranges_; }
  std::span<const uint64_t> seen_at() const override { return seen_at_; }
  bool is_there() const override;

 private:
  /// A range as its rank tells the others of it: in the allocation that the descriptor is of.
  struct SharedRange {
    int descriptor = -1;
    uint64_t allocated = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  CudaPeerMemory(const drivers::cuda::Cuda* cuda, size_t ranks)
      : cuda_(cuda), ranges_(ranks, nullptr) {}
  /// Its last owner may be any thread.
  static std::shared_ptr<const exec::PeerMemory> handed_out(
      const std::shared_ptr<CudaPeerMemory>& made);
  Status give(drivers::cuda::CUdevice device, const exec::DeviceGroup& group);
  std::string offer() const;
  std::string ranges_text() const;
  void read_ranges(const std::vector<std::string>& texts, size_t self);
  static std::optional<SharedRange> read_offer(std::string_view text);
  static std::vector<int> numbers_in(const std::vector<std::string>& texts);
  Status import(drivers::cuda::CUdevice device, const exec::DeviceGroup& group,
                const std::vector<std::string>& texts, const Descriptors& descriptors);

  const drivers::cuda::Cuda* const cuda_;  // null: this rank has no device
  std::byte* mine_ = nullptr;              // null: it has brought none
  uint64_t bytes_ = 0;
  drivers::cuda::AddressFacts facts_;  // of mine_ when it was registered
  Fd exported_;                        // until all have imported it
  std::vector<std::optional<drivers::cuda::DeviceMemory>> theirs_;  // by rank
  std::vector<std::byte*> ranges_;                                  // by rank
  std::vector<uint64_t> seen_at_;                                   // by rank
};

}  // namespace tutti::engines::cuda
