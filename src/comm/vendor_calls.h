// Which calls on devices a library of the vendor's runs (exec::DeviceRank::vendor). It needs no
// plan. Its part of the communicator is made in the background: the first eager call that is to go
// by it waits for that, and captured calls before that one go by other engines, on all ranks alike.
//
// Threads: one at a time. Errors: WholeCalls's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>

#include "src/comm/whole_calls.h"

namespace tutti::comm {

class VendorCalls final : public WholeCalls {
 public:
  /// The time that the cheapest of the other engines takes for a request.
  using OthersNs = std::function<double(const Request&)>;
  /// `library`, `streams` (the plans for the same calls by streams), `model` and `labels` outlive
  /// it.
  VendorCalls(exec::VendorLibrary& library, const EnginePlans& streams, const select::Model& model,
              OthersNs others_ns, CallRecorder& labels)
      : library_(library),
        streams_(streams),
        model_(model),
        others_ns_(std::move(others_ns)),
        labels_(labels) {}
  /// Whether such a wish asks for the library, or leaves the choice to prices and somebody has
  /// measured its calls among so many ranks.
  static bool is_wanted(EngineWish wish, const select::Model& model, int ranks);
  VendorCalls(const VendorCalls&) = delete;
  VendorCalls& operator=(const VendorCalls&) = delete;

  exec::CallEngine engine() const override { return exec::CallEngine::kVendor; }
  bool is_meant(EngineWish wish) const override { return wish == EngineWish::kNccl; }
  /// auto compares prices, nccl does not.
  Status objection(const Request& request, EngineWish wish) override;
  Status get_ready(bool captured) override;
  Result<WholeCall> take(const Request& request, bool in_place) override;
  std::string explain(const Request& request, bool in_place) override;
  std::string explain(const Status& objection) const override;
  bool is_of_interest(EngineWish wish) const override;

 private:
  using Key = std::tuple<schedule::Collective, types::DataType, types::ReduceOp, uint64_t, int>;

  diagnosis::DescribedCall describe(const Request& request) const;
  Status compare_prices(const Request& request) const;

  exec::VendorLibrary& library_;
  const EnginePlans& streams_;
  const select::Model& model_;
  const OthersNs others_ns_;
  CallRecorder& labels_;
  std::map<Key, Status> known_;  // of compare_prices()
};

}  // namespace tutti::comm
