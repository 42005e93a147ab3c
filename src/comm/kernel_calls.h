// Which calls on devices one kernel runs by itself (exec::DeviceRank::fuses), and their plans.
//
// The kernels of all ranks wait for each other, so all must choose alike: the choice follows from
// the call, the model and what all ranks' plans need. Whether an algorithm is one kernel is asked
// of the plans of all ranks, in place and not, when it is first chosen.
//
// Threads: one at a time. Errors: none but the planner's; an objection says why another engine runs
// the call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "src/comm/planner.h"
#include "src/comm/request.h"
#include "src/comm/whole_calls.h"
#include "src/exec/stream_rank.h"
#include "src/select/device_way.h"

namespace tutti::comm {

/// The algorithms that a kernel may run: in a round or two, and barriers.
std::vector<schedule::Algorithm> kernel_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                   int ranks);
/// One slice, nothing in cells but what has no blocks.
plan::Tuning kernel_tuning();

class KernelCalls final : public WholeCalls {
 public:
  /// `rank`, `planner`, `streams` (the plans for the same calls by streams) and `labels` outlive
  /// it.
  KernelCalls(const exec::DeviceRank& rank, Planner& planner, EnginePlans& streams,
              select::DeviceWay way, CallRecorder* labels);
  KernelCalls(const KernelCalls&) = delete;
  KernelCalls& operator=(const KernelCalls&) = delete;

  exec::CallEngine engine() const override { return exec::CallEngine::kKernel; }
  /// That wish is auto's, but for the price.
  bool is_meant(EngineWish /*wish*/) const override { return false; }
  /// auto compares prices, kernel does not; by others no kernel runs the call.
  Status objection(const Request& request, EngineWish wish) override;
  Result<WholeCall> take(const Request& request, bool in_place) override;
  /// By the model.
  Result<double> predict_ns(const Request& request);
  std::string explain(const Request& request, bool in_place) override;
  bool is_of_interest(EngineWish /*wish*/) const override { return true; }
  std::string explain(const Status& objection) const override {
    return "by no kernel that waits, since " + std::string(objection.message());
  }

 private:
  /// All that a choice depends on beside the model.
  using Key = std::tuple<schedule::Collective, types::DataType, types::ReduceOp, uint64_t, int,
                         EngineWish, bool>;

  Result<const Prepared*> prepare(const Request& request, bool in_place) {
    return plans_->prepare(request, in_place, {});
  }
  /// An algorithm needs at most this on any rank.
  struct NeedOfAll {
    uint32_t places = 0;                           // of a mailbox
    uint64_t scratch_bytes = 0;                    // in the same example of all ranks
    std::shared_ptr<const plan::Match> hungriest;  // of the rank that needs the most scratch memory
  };

  Status decide(const Request& request, EngineWish wish);
  Status compare_prices(const Request& request);
  Result<NeedOfAll> need_of(const schedule::Algorithm& algorithm, int root, schedule::Fold fold);
  Result<NeedOfAll> need_placed(const schedule::Algorithm& algorithm, int root, schedule::Fold fold,
                                bool in_place) const;

  const exec::DeviceRank& rank_;
  const PlannerOptions& planning_;
  EnginePlans& streams_;
  std::vector<schedule::Algorithm> algorithms_;  // of which the plans have a view
  EnginePlans* plans_ = nullptr;                 // the planner's
  double call_ns_ = 0;                           // of a call, but for its messages
  std::map<Key, Status> known_;
  // By algorithm, root, and how it folds.
  std::map<std::tuple<std::string, int, schedule::Fold>, Result<NeedOfAll>> needs_;
};

}  // namespace tutti::comm
