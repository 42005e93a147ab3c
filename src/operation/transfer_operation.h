// Sends and receives that progress together: one, or those of a group on one communicator.
//
// Owns: its options. Threads and errors: those of an Operation.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "src/operation/operation.h"

namespace tutti::operation {

class TransferOperation final : public OperationOf<TransferOperation> {
 public:
  /// `extras`: null or the call's own.
  TransferOperation(comm::Communicator& communicator, const exec::Transfer& transfer,
                    const comm::Extras* extras);
  /// Several.
  TransferOperation(comm::Communicator& communicator, std::vector<exec::Transfer> transfers,
                    const comm::Extras* extras);

  std::string name() const override { return "send and receive"; }
  GroupPhase phase(bool by_streams) const override;
  /// With the least deadline and the highest priority of both.
  bool can_join(const Operation& later) const override;
  void join(const Operation& later) override;
  std::vector<CallBuffer> buffers() const override;
  void move_buffer(size_t number, std::byte* memory) override;

  Status check() const override;
  Result<double> predict_ns() override;
  std::string explain() override;

  Status run() override;
  uint64_t queue() override;
  Status begin(uint64_t ticket) override;
  plan::Progress advance() override;
  Status outcome() const override;

  Status unsupported_by_streams() const override;
  Status check_host_way() override;
  Status announce_host_way() override;
  Result<StreamWork> stream_work(std::span<const exec::StreamPlace> where) override;
  bool crosses() const override;
  Result<std::shared_ptr<exec::HostStaging>> cross(std::span<const exec::StreamPlace> where,
                                                   std::function<void()> arrived) override;

 private:
  std::span<const exec::Transfer> transfers() const;

  Status check_streams(std::span<const exec::StreamPlace> where) const;

  std::shared_ptr<const comm::TransferPart> part_;  // null: the host has all of it
  std::variant<exec::Transfer, std::vector<exec::Transfer>> transfers_;  // a single one: no memory
};

}  // namespace tutti::operation
