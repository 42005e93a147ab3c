// One rank of an all-gather by copy engines: a protocol as small as one can be and still have all
// that copy-engine protocols have.
//
// Each rank has a window: a slot for every rank's data, and two flags of each peer. An iteration
// is:
//   1. ready: tell each peer that my window may be written; wait until all have told me
//   2. push my data into my slot of every window, in one batch
//   3. done: tell each peer that my data is there; wait until all have told me
// and then the rank copies its window to the host and compares. Flags are rising numbers, so that
// they are never reset; in a graph, whose values are fixed, a rank puts them back behind its wait.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/software_device/client.h"
#include "tests/software_device/protocol/options.h"

namespace softdev {

/// All that ranks tell each other without the device, in memory that all of them map.
struct Board {
  std::array<std::atomic<int>, 64> arrived;
  std::array<CUdeviceptr, kMostRanks> windows;
  std::array<CUipcMemHandle, kMostRanks> handles;
};

/// The same in all ranks.
struct Meeting {
  const ProtocolOptions* options = nullptr;
  Board* board = nullptr;
  void* host_flags = nullptr;  // kHostFlagBytes for each rank
  int sockets[kMostRanks][kMostRanks][2] =
      {};  // from, to: the end that sends, the one that receives
};
inline constexpr size_t kHostFlagBytes = 4096;

/// Ends the process with kDriverFailed and a line where the driver fails.
class Rank {
 public:
  Rank(const Meeting& meeting, const Client& client, int me);
  ~Rank();

  /// Whether every iteration gave the right bytes.
  bool run();

 private:
  enum Flag : size_t { kReady, kDone };

  void meet();
  void open_window();
  void open_peers();
  CUdeviceptr open_peer(int peer);
  CUdeviceptr slot_of(int owner, int writer) const;
  CUdeviceptr flag_of(int owner, Flag flag, int writer) const;

  void enqueue_iteration(uint32_t number);
  void tell_and_wait(Flag flag, uint32_t number);
  void copy_flags(Flag flag, uint32_t number);
  void push(uint32_t number);
  void capture_iteration();
  bool iterate(uint32_t number);

  void require(const Status& status, const char* what) const;
  void require(CUresult result, const char* what) const;
  template <class Value>
  Value required(Result<Value> result, const char* what) const;

  const Meeting& meeting_;
  const ProtocolOptions& options_;
  const Client& client_;
  const cuda::Cuda& cuda_;
  const int me_;
  const int ranks_;
  int meetings_ = 0;
  CUdevice device_ = 0;
  std::unique_ptr<cuda::PrimaryContext> primary_;
  std::unique_ptr<cuda::ContextScope> scope_;
  std::unique_ptr<cuda::CudaStream> stream_;
  std::unique_ptr<cuda::RegisteredMemory> host_flags_;
  std::vector<cuda::DeviceMemory> memory_;  // mine, and what was imported
  std::vector<CUdeviceptr> windows_;
  CUdeviceptr data_ = 0;
  CUdeviceptr number_ = 0;  // the word that flags are copied from
  std::unique_ptr<cuda::PinnedMemory> host_;
  CUgraphExec graph_ = nullptr;
  cuda::CopyBatch copies_;
  cuda::MemoryOps operations_;
};

/// Exit statuses of the program.
enum ProtocolExit : int {
  kRight = 0,
  kWrongBytes = 1,
  kWrongArguments = 2,
  kDriverFailed = 3,
  kRaces = 4,
  kHang = 5,
  kNoDevice = 77,
};

}  // namespace softdev
