// An access to a window: a put, a get, a signal, or the wait for one.
//
// Owns: its options. Threads and errors: those of an Operation.
#pragma once

#include <string>
#include <vector>

#include "src/operation/operation.h"

namespace tutti::operation {

class AccessOperation final : public OperationOf<AccessOperation> {
 public:
  AccessOperation(comm::Communicator& communicator, const comm::Access& access)
      : OperationOf(communicator, nullptr), access_(access) {}

  std::string name() const override { return comm::name_of(access_.kind); }
  GroupPhase phase(bool by_streams) const override;
  std::vector<CallBuffer> buffers() const override;
  void move_buffer(size_t, std::byte* memory) override { access_.local = memory; }
  Result<exec::DeviceCopies> stream_copies(bool captured) override;

  Result<double> predict_ns() override;
  std::string explain() override;

  Status run() override;
  uint64_t queue() override;
  Status begin(uint64_t ticket) override;
  plan::Progress advance() override;
  Status outcome() const override;

 private:
  comm::Access access_;
};

}  // namespace tutti::operation
