// Which calls on devices a library of the vendor's runs (exec::DeviceRank::vendor). It needs no
// plan. Its part of the communicator is made in the background: the first eager call that is to go
// by it waits for that, and captured calls before that one go by other engines, on all ranks alike.
//
// Threads: one at a time. Errors: WholeCalls's.
#pragma once

#include <string>

#include "src/comm/whole_calls.h"

namespace tutti::comm {

class VendorCalls final : public WholeCalls {
 public:
  /// `library`, `streams` (the plans for the same calls by streams) and `labels` outlive it.
  VendorCalls(exec::VendorLibrary& library, const EnginePlans& streams, CallRecorder& labels)
      : library_(library), streams_(streams), labels_(labels) {}
  VendorCalls(const VendorCalls&) = delete;
  VendorCalls& operator=(const VendorCalls&) = delete;

  exec::CallEngine engine() const override { return exec::CallEngine::kVendor; }
  bool is_meant(EngineWish wish) const override { return wish == EngineWish::kNccl; }
  Status objection(const Request& request, EngineWish wish) override;
  Status get_ready(bool captured) override;
  Result<WholeCall> take(const Request& request, bool in_place) override;
  std::string explain(const Request& request, bool in_place) override;
  std::string explain(const Status& objection) const override;
  bool is_of_interest(EngineWish wish) const override { return is_meant(wish); }

 private:
  diagnosis::DescribedCall describe(const Request& request) const;

  exec::VendorLibrary& library_;
  const EnginePlans& streams_;
  CallRecorder& labels_;
};

}  // namespace tutti::comm
