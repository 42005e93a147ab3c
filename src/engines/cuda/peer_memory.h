// Device memory that the ranks of a host have registered together (exec::PeerMemory): each gives
// the others a descriptor of its allocation, and maps theirs.
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
  /// Collective (exec::DeviceRank::share). `device` is the rank's; its context is current.
  static Result<std::shared_ptr<const exec::PeerMemory>> share(
      const drivers::cuda::Cuda& cuda, drivers::cuda::CUdevice device,
      const exec::DeviceRankOptions& options, std::byte* memory, uint64_t bytes);

  std::span<std::byte* const> ranges() const override { return ranges_; }
  bool is_there() const override;

 private:
  /// A range as its rank tells the others of it: in the allocation that the descriptor is of.
  struct SharedRange {
    int descriptor = -1;
    uint64_t allocated = 0;
    uint64_t offset = 0;
  };

  CudaPeerMemory(const drivers::cuda::Cuda& cuda, std::byte* memory, uint64_t bytes)
      : cuda_(cuda), mine_(memory), bytes_(bytes) {}
  Status give(drivers::cuda::CUdevice device, const exec::DeviceRankOptions& options);
  std::string offer() const;
  static std::optional<SharedRange> read_offer(std::string_view text);
  static std::vector<int> numbers_in(const std::vector<std::string>& texts);
  Status import(drivers::cuda::CUdevice device, const exec::DeviceRankOptions& options,
                const std::vector<std::string>& texts, const Descriptors& descriptors);

  const drivers::cuda::Cuda& cuda_;
  std::byte* const mine_;
  const uint64_t bytes_;
  drivers::cuda::AddressFacts facts_;  // of mine_ when it was registered
  Fd exported_;                        // until all have imported it
  std::vector<std::optional<drivers::cuda::DeviceMemory>> theirs_;  // by rank
  std::vector<std::byte*> ranges_;                                  // by rank
};

}  // namespace tutti::engines::cuda
