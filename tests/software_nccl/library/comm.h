// A communicator of the stand-in, and the kernels that it launches, which wait for each other.
//
// Threads: as NCCL's. Errors: NCCL's results.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/nccl/abi.h"
#include "tests/software_nccl/library/board.h"

namespace softnccl {

enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kTransfers };

/// One of a group's sends and receives.
struct Message {
  bool is_send = false;
  char* data = nullptr;  // device memory
  size_t bytes = 0;
  int peer = 0;
};

struct Factor {
  char value[8] = {};            // of the operation's type
  const void* memory = nullptr;  // not null: it lies there
};

struct Launch {
  Kind kind = Kind::kAllReduce;
  const char* send = nullptr;
  char* recv = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  bool is_scaled = false;
  Factor factor = {};
  int root = 0;
  std::vector<Message> messages = {};
  ncclComm* comm = nullptr;
  cudaStream_t stream = nullptr;
  long number = 0;  // among the communicator's
};

/// The work of a kernel, on a thread of the device. False: it was aborted.
bool run(const Launch& launch, int device);

/// Puts it into its stream.
ncclResult_t launch(std::unique_ptr<Launch> launch);
/// The functions that launch() needs are there. The context of the communicator's device is
/// current.
ncclResult_t load_kernels();

/// Device memory of the communicator's, in the current context.
ncclResult_t take_memory(ncclComm* comm);
void give_memory_back(ncclComm* comm);

}  // namespace softnccl

struct ncclComm {
  int rank = 0, ranks = 0;
  bool blocking = true;
  std::string id;
  std::shared_ptr<softnccl::BoardLayout> board;
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<bool> aborted{false};
  std::atomic<long> running{0};  // kernels that are not over
  std::atomic<bool> failed{false};
  long launched = 0;
  uint64_t memory = 0;  // an address; 0: it has none
  uint64_t switches = 0;
  uint64_t steps = 0;                                                          // of its kernels
  uint64_t sent[softnccl::kMostRanks] = {}, taken[softnccl::kMostRanks] = {};  // pieces
  std::vector<softnccl::Factor> factors;  // by operation, from ncclNumOps on
  std::thread making;
  std::vector<std::unique_ptr<softnccl::Launch>> launches;  // graphs run them again
};
