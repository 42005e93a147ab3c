// Calls of ranks on several hosts whose level within a host a library of the vendor's does
// (plan/level_calls.h): which they are, and their plans. Messages between hosts are those of the
// plans that streams do alone.
//
// All ranks must choose alike, so the choice follows from what is equal on all hosts: where one of
// them cannot have the library, or its ranks' steps are none of its calls, no host uses it.
//
// Threads: one at a time. Errors: WholeCalls's.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/comm/whole_calls.h"

namespace tutti::comm {

/// Of the algorithms for calls between hosts those that know levels and whose steps within each
/// host are level calls, with root 0. In others the ranks of a host have parts so unlike that lanes
/// which take turns might stand still in one hardware queue (level_plans_test.cc).
std::vector<schedule::Algorithm> level_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                  const group::GroupPointer& group);

class LevelCalls final : public WholeCalls {
 public:
  struct LevelParts {
    exec::VendorLibrary* library = nullptr;  // outlives it
    Status refusal;                          // of all hosts
    Status folds;                            // of all ranks
    // For people: through which memory such a plan goes, and what it puts into a stream.
    std::function<std::string(const plan::Plan&)> explain;
  };
  /// `streams`: the plans for the same calls by streams alone, made as `engine` says. They,
  /// `planner` and `labels` outlive it.
  LevelCalls(LevelParts parts, Planner& planner, EnginePlans& streams, PlanEngine engine);
  LevelCalls(const LevelCalls&) = delete;
  LevelCalls& operator=(const LevelCalls&) = delete;

  /// The plan's own moves and messages are put by the walk, and the library's calls among them.
  exec::CallEngine engine() const override { return exec::CallEngine::kWalk; }
  bool is_meant(EngineWish wish) const override { return wish == EngineWish::kNccl; }
  Status objection(const Request& request, EngineWish wish) override;
  Result<WholeCall> take(const Request& request, bool in_place) override;
  std::string explain(const Request& request, bool in_place) override;
  std::string explain(const Status& objection) const override;
  bool is_of_interest(EngineWish wish) const override;

 private:
  using Key =
      std::tuple<schedule::Collective, types::DataType, types::ReduceOp, uint64_t, int, bool, bool>;

  Status decide(const Request& request, bool by_price);
  Status compare_prices(const Request& request);
  Result<double> predict_library_ns(const plan::Plan& plan) const;

  const LevelParts parts_;
  const PlannerOptions& planning_;
  EnginePlans& streams_;
  std::vector<schedule::Algorithm> algorithms_;  // of which the plans have a view
  EnginePlans* plans_ = nullptr;                 // the planner's
  std::map<Key, Status> known_;
};

}  // namespace tutti::comm
