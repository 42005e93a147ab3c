#include "src/api/plain_transfers.h"

#include <utility>

#include "src/api/submit.h"
#include "src/comm/driver.h"

namespace tutti::api {

bool PlainTransfers::add(tuttiComm_t comm, const exec::Transfer& transfer) {
  if (!transfers_.empty() && comm != comm_) return false;
  comm::Communicator& communicator = *comm->communicator;
  // The engine, if it has nothing of the communicator, is done with what this looks at.
  if (communicator.pending.load(std::memory_order_acquire) == 0) communicator.claim(transfer);
  transfers_.push_back(transfer);
  const comm::CallOptions& options = communicator.options();
  const uint64_t timeout_ns = communicator.timeout_of(options.timeout_ns);
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
  const Caller caller(comm_->presence);
  if (Status status = check_handle(comm_); !status.ok()) return status;
  Status status = communicator_->check(transfers);
  if (status.ok())
    status = run_behind(*communicator_, std::span(std::as_const(transfers)), timeout_ns_);
  if (transfers.capacity() <= comm::Driver::kMostSpares) {
    transfers.clear();
    transfers_ = std::move(transfers);
  }
  return status;
}

comm::Task PlainTransfers::take() {
  comm::Task task;
  task.communicator = communicator_;
  task.priority = priority_;
  comm::CallOptions& options = task.extras.options.emplace();
  options.priority = priority_;
  options.timeout_ns = timeout_ns_;
  if (transfers_.size() == 1) {
    task.work = transfers_.front();
  } else {
    task.work = std::move(transfers_);
  }
  transfers_.clear();
  return task;
}

}  // namespace tutti::api
