// The object behind ncclComm_t: a communicator of tutti.h and the state that NCCL has beside it.
//
// Threads:  as tutti.h says of communicators; asking for the asynchronous error, deregistering and
//           aborting from any thread at any time.
// Lifetime: the shell outlives the communicator (a few hundred bytes), so that a stale handle is an
//           error and not a crash.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "plugins/nccl/abi.h"
#include "plugins/nccl/device_memory.h"
#include "plugins/nccl/errors.h"
#include "plugins/nccl/group.h"
#include "tutti/tutti.h"

namespace tutti::nccl {

/// The states that NCCL adds to those of tutti.h.
enum class State : uint32_t { kNone = 0, kInUse = 0x6e63636d, kAborted, kDestroyed };

}  // namespace tutti::nccl

struct ncclWindow_vidmem {
  void* memory = nullptr;
  void* registration = nullptr;    // of tuttiCommRegister; null: collectives take no notice of it
  tuttiWindow_t window = nullptr;  // for one-sided access
  std::string why_none;            // without: the memory is a GPU's, and others cannot reach it
};

namespace tutti::nccl {

/// The facts about a communicator that are known before it is made.
struct Traits {
  int device = 0;
  bool blocking = true;      // its own calls
  bool made_behind = false;  // the call that makes it does not wait, whatever its own do
};

/// The communicator of tutti.h, which writes it while it is made and takes it back if it cannot be,
/// with a watchdog looking on: each use of it is one look.
class Made {
 public:
  tuttiComm_t* place() { return &comm_; }
  operator tuttiComm_t() const {
    return std::atomic_ref<tuttiComm_t>(comm_).load(std::memory_order_acquire);
  }

 private:
  mutable tuttiComm_t comm_ = nullptr;  // null: it was not made
};

}  // namespace tutti::nccl

struct ncclComm {
  std::atomic<tutti::nccl::State> state{tutti::nccl::State::kNone};
  uint32_t generation = 0;  // of the process that made it: a fork begins a new one
  tutti::nccl::Traits traits;
  std::atomic<bool> made_behind{false};  // as traits says, until it is seen to be made
  tutti::nccl::Made tutti;
  std::atomic<int> destroyers{0};  // threads in ncclCommDestroy
  std::mutex abort_mutex;          // held while it is being aborted
  std::mutex mutex;
  std::map<void*, std::unique_ptr<ncclWindow_vidmem>> windows;  // under mutex; by handle
  std::map<void*, size_t> registrations;  // under mutex; how often an address is registered
  std::map<int, const void*> scalars;     // under mutex; of operations with one in memory
  tuttiWindow_t signals = nullptr;        // under mutex; made with the first window (one_sided.cc)
};

namespace tutti::nccl {

using Make = std::function<tuttiResult_t(tuttiComm_t*)>;

/// Makes a communicator, in an open group at its end. *comm is set at once, and null again after a
/// failure, or if `make` succeeds without making one (colour NOCOLOR).
ncclResult_t create(ncclComm_t* comm, const char* function, const Traits& traits, const Make& make);

/// ncclSuccess if the handle is a communicator of this process and was not destroyed. tutti.h
/// judges the rest.
ncclResult_t check_handle(ncclComm_t comm, const char* function);
/// The same, and not aborted.
ncclResult_t check_usable(ncclComm_t comm, const char* function);

/// The rank and size, or why it has none.
ncclResult_t find_world(ncclComm_t comm, ncclTeam_t& world);
/// The same for functions that cannot fail; a group of one where there is none.
ncclTeam_t world_of(ncclComm_t comm);

template <class Call>
ncclResult_t ask(ncclComm_t comm, const char* function, Call call) {
  const ncclResult_t refused = check_handle(comm, function);
  return refused != ncclSuccess ? refused : translate(call(comm->tutti));
}

/// The arguments that say where a call runs, before it is known whether any of it can be used.
struct Operands {
  std::array<const void*, 2> buffers = {};  // null: none
  cudaStream_t stream = nullptr;
  int op = ncclSum;  // an ncclRedOp_t, if it is one
};

/// Where a call on them runs: as stream_for() says, the scalar of the operation included.
tuttiStream_t stream_of(ncclComm& comm, const Operands& operands);

/// One operation: `call` gets the communicator and the stream of tutti.h.
template <class Call>
ncclResult_t operate(ncclComm_t comm, const char* function, const Operands& operands, Call call) {
  const ncclResult_t refused = check_usable(comm, function);
  if (refused != ncclSuccess) return part_of_group(refused);
  return part_of_group(translate(call(comm->tutti, stream_of(*comm, operands))));
}

/// A C caller may pass any integer as an enumeration; reading it as one would be undefined.
template <class Enum>
int number_of(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof number);
  return number;
}

/// A type that NCCL does not have becomes a number that tutti.h does not have and its type can
/// hold.
inline tuttiDataType_t type_of(const ncclDataType_t& type) {
  constexpr int kUnknown = 15;
  const int number = number_of(type);
  return static_cast<tuttiDataType_t>(number < 0 || number >= ncclNumTypes ? kUnknown : number);
}
inline tuttiRedOp_t op_of(const ncclRedOp_t& op) {
  const int number = number_of(op);
  const bool is_tuttis = number >= ncclNumOps && number <= tuttiBitXor;
  return number < 0 || is_tuttis ? tuttiMaxRedOp : static_cast<tuttiRedOp_t>(number);
}

}  // namespace tutti::nccl
