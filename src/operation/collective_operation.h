// A collective call, with count vectors or without.
//
// Owns: its options, its scalar and its count vectors. Threads and errors: those of an Operation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/operation/operation.h"

namespace tutti::operation {

class CollectiveOperation final : public OperationOf<CollectiveOperation> {
 public:
  /// All that the request points to, but the buffers, is copied.
  CollectiveOperation(comm::Communicator& communicator, const comm::Request& request);

  std::string name() const override { return comm::name_of(request_); }
  GroupPhase phase(bool) const override { return GroupPhase::kCollective; }
  std::vector<CallBuffer> buffers() const override;
  void move_buffer(size_t number, std::byte* memory) override;

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
  comm::Request request() const;
  Status take_scalar();
  Status check_stream(const exec::StreamPlace& where);
  uint64_t longest_in_streams();
  Result<std::shared_ptr<exec::HostStaging>> cross_shares(const exec::StreamPlace& where,
                                                          std::function<void()> arrived);

  comm::Request request_;  // without its extras and counts
  comm::KeptCounts counts_;
  // Null, both: the host has all of it.
  std::shared_ptr<const comm::NetworkPart> part_;
  std::shared_ptr<const comm::TransferPart> shares_;  // of private counts
};

}  // namespace tutti::operation
