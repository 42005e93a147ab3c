// The contents of most groups of sends and receives, kept without an operation as long as there is
// nothing else: transfers of one communicator on BLOCKING streams, without options or handles of
// their own. They run as a blocking call does
// (docs/decisions/memory_of_a_host.md#0029 says what that saves).
//
// Threads: as a group's. Errors: run() returns the communicator's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/api/handle.h"
#include "src/operation/transfer_operation.h"

namespace tutti::api {

class PlainTransfers {
 public:
  bool empty() const { return transfers_.empty(); }
  tuttiComm_t comm() const { return comm_; }

  /// Options that the communicator gets afterwards are for later calls. False if they have another
  /// communicator's.
  bool add(tuttiComm_t comm, const exec::Transfer& transfer);
  /// In this thread, and then they are empty. The handle was checked when they were added, and may
  /// have been ended since.
  Status run();
  size_t size() const { return transfers_.size(); }
  /// The same as an operation; they stay.
  operation::TransferOperation operation() const;
  void clear() { transfers_.clear(); }

 private:
  tuttiComm_t comm_ = nullptr;  // of those that there are
  comm::Communicator* communicator_ = nullptr;
  uint64_t timeout_ns_ = 0;  // the least
  int priority_ = 0;         // the highest
  std::vector<exec::Transfer> transfers_;
};

}  // namespace tutti::api
