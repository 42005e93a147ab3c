#include "src/api/plain_transfers.h"

#include <utility>

#include "src/operation/task_scheduler.h"

namespace tutti::api {

bool PlainTransfers::add(tuttiComm_t comm, const exec::Transfer& transfer) {
  if (!transfers_.empty() && comm != comm_) return false;
  comm::Communicator& communicator = *comm->communicator;
  // The engine, if it has nothing of the communicator, is done with what this looks at.
  if (communicator.pending.load(std::memory_order_acquire) == 0)
    communicator.transfers().claim(transfer);
  transfers_.push_back(transfer);
  const comm::CallOptions& options = communicator.collectives().planner().options();
  const uint64_t timeout_ns = communicator.frame().timeout_of(options.timeout_ns);
  const bool first = transfers_.size() == 1;
  timeout_ns_ = first ? timeout_ns : std::min(timeout_ns_, timeout_ns);
  priority_ = first ? options.priority : std::max(priority_, options.priority);
  comm_ = comm;
  communicator_ = &communicator;
  return true;
}

// However this ends, the next group of the thread begins with none.
Status PlainTransfers::run() {
  std::vector<exec::Transfer> transfers = std::exchange(transfers_, {});
  const CallGuard guard(comm_->in_flight);
  if (Status status = check_handle(comm_); !status.ok()) return status;
  comm::Communicator& communicator = *communicator_;
  Status status = exec::check_own_transfers(transfers, communicator.rank());
  if (status.ok()) {
    status = run_behind(communicator,
                        [&] { return communicator.transfers().run(transfers, timeout_ns_); });
  }
  if (transfers.capacity() <= operation::TaskScheduler::kMostSpares) {
    transfers.clear();
    transfers_ = std::move(transfers);
  }
  return status;
}

operation::TransferOperation PlainTransfers::operation() const {
  comm::Extras extras;
  comm::CallOptions& options = extras.options.emplace();
  options.priority = priority_;
  options.timeout_ns = timeout_ns_;
  if (transfers_.size() == 1) return {*communicator_, transfers_.front(), &extras};
  return {*communicator_, transfers_, &extras};
}

}  // namespace tutti::api
