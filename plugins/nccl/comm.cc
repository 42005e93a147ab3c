#include "plugins/nccl/comm.h"

#include <deque>
#include <string>
#include <utility>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/forks.h"
#include "plugins/nccl/version.h"

namespace tutti::nccl {
namespace {

/// Under the process's mutex, also while it is made; addresses are stable.
std::deque<ncclComm>& shells() {
  // tidy: allow mutable (the handles of a C API have no other owner)
  static auto* const shells = new std::deque<ncclComm>;
  return *shells;
}

ncclComm* new_shell(const Traits& traits) {
  const std::lock_guard lock(process_mutex());
  ncclComm& shell = shells().emplace_back();
  shell.traits = traits;
  shell.made_behind.store(traits.made_behind, std::memory_order_relaxed);
  shell.generation = process_generation();
  shell.state.store(State::kInUse, std::memory_order_release);
  return &shell;
}

/// Whatever else a program passes for a handle.
bool is_known(State state) { return state >= State::kInUse && state <= State::kDestroyed; }

}  // namespace

ncclResult_t create(ncclComm_t* comm, const char* function, const Traits& traits,
                    const Make& make) {
  if (comm == nullptr) return refuse(function, "the place for the new communicator is null");
  tell_version();
  ncclComm* shell = new_shell(traits);
  *comm = shell;
  const auto settle = [shell, comm] {
    if (shell->tutti == nullptr) *comm = nullptr;
  };
  bool settles_later = false;
  const ncclResult_t result = caught([&] {
    const ncclResult_t made = translate(make(shell->tutti.place()));
    settles_later = in_group() && made == ncclSuccess;
    if (settles_later) at_group_end(settle);
    return made;
  });
  if (!settles_later || result != ncclSuccess) settle();
  return result;
}

ncclResult_t check_handle(ncclComm_t comm, const char* function) {
  if (comm == nullptr) return refuse(function, "the communicator is null");
  // An abort of its making leaves nothing behind the handle, which may still be asked.
  const State state = comm->state.load(std::memory_order_acquire);
  if (!is_known(state) || (comm->tutti == nullptr && state != State::kAborted)) {
    return refuse(function, "the handle is not a communicator");
  }
  if (comm->generation != process_generation()) {
    return misuse(function,
                  "the communicator belongs to the process that made it, not to a forked child");
  }
  if (comm->state.load(std::memory_order_acquire) != State::kDestroyed) return ncclSuccess;
  return misuse(function, "the communicator has been destroyed");
}

ncclResult_t check_usable(ncclComm_t comm, const char* function) {
  if (const ncclResult_t bad = check_handle(comm, function); bad != ncclSuccess) return bad;
  if (comm->state.load(std::memory_order_acquire) != State::kAborted) return ncclSuccess;
  return misuse(function, "the communicator was aborted");
}

ncclResult_t find_world(ncclComm_t comm, ncclTeam_t& world) {
  world.stride = 1;
  const tuttiResult_t counted = tuttiCommCount(comm->tutti, &world.nRanks);
  return translate(counted != tuttiSuccess ? counted : tuttiCommUserRank(comm->tutti, &world.rank));
}

ncclTeam_t world_of(ncclComm_t comm) {
  constexpr ncclTeam_t kAlone = {1, 0, 1};
  ncclTeam_t world = kAlone;
  const ncclResult_t found = caught([&] {
    const ncclResult_t bad = check_handle(comm, "ncclTeamWorld");
    return bad != ncclSuccess ? bad : find_world(comm, world);
  });
  return found == ncclSuccess ? world : kAlone;
}

tuttiStream_t stream_of(ncclComm& comm, const Operands& operands) {
  std::array<const void*, 3> buffers = {operands.buffers[0], operands.buffers[1], nullptr};
  if (operands.op >= ncclNumOps) {
    const std::lock_guard lock(comm.mutex);
    const auto made = comm.scalars.find(operands.op);
    if (made != comm.scalars.end()) buffers[2] = made->second;
  }
  return stream_for(buffers, operands.stream);
}

}  // namespace tutti::nccl
