#include "src/api/parent.h"

#include "src/api/pending_init.h"
#include "src/api/submit.h"

namespace tutti::api {

bool is_revoked(const tuttiComm& comm) {
  return comm.state.load(std::memory_order_acquire) == CommState::kRevoked;
}

Status check_parent(const ParentCall& call) {
  const std::string name = call.name;
  if (call.comm == nullptr) return Status::invalid_argument(name + ": comm is null");
  if (!is_revoked(*call.comm) || !call.may_be_revoked) {
    if (Status status = check_handle(call.comm); !status.ok()) return status;
  }
  if (!group_uses(call.comm)) return {};
  return Status::invalid_usage(name + ": the open group has operations on this communicator");
}

Status quiesce(const char* call, tuttiComm* handle, bool abort, const std::string& way_out,
               const WaitLimit& wait_limit) {
  comm::Communicator& parent = *handle->communicator;
  const std::string rank = "rank " + std::to_string(parent.rank());
  if (abort) {
    parent.failures().abort(
        Status::remote_error(rank + " called " + call + ", which ends what is in flight"));
  }
  const std::string in_flight =
      std::string(call) + ": operations of " + rank + " are still in flight";
  wait_limit.waits_for(in_flight);
  if (!wait_for_use(handle, wait_limit)) return wait_limit.reason(in_flight + "; " + way_out);
  if (abort || !parent.failure().ok()) parent.give_up();
  return {};
}

}  // namespace tutti::api
