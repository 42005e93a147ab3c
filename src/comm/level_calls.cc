#include "src/comm/level_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "src/comm/device_texts.h"
#include "src/comm/vendor_calls.h"
#include "src/select/tree_of.h"

namespace tutti::comm {
namespace {

using plan::LevelRowKind;

/// Of the host that has most ranks.
int most_near(const group::GroupView& group) {
  return static_cast<int>(group.near_ranks(group.first_of_largest_host()).size());
}

/// By which of the library's collectives rows of a kind are priced.
constexpr std::array<std::pair<LevelRowKind, schedule::Collective>, 4> kPricedAs = {
    {{LevelRowKind::kFold, schedule::Collective::kReduceScatter},
     {LevelRowKind::kFoldForAll, schedule::Collective::kAllReduce},
     {LevelRowKind::kSpread, schedule::Collective::kAllGather},
     {LevelRowKind::kPair, schedule::Collective::kAllToAll}}};

}  // namespace

std::vector<schedule::Algorithm> level_algorithms(std::span<const schedule::Algorithm> algorithms,
                                                  const group::GroupPointer& group) {
  std::vector<schedule::Algorithm> taken;
  for (const schedule::Algorithm& algorithm : algorithms) {
    if (!algorithm.follows_levels()) continue;
    plan::MatchRequest wanted;
    wanted.algorithm = &algorithm;
    wanted.parameters = {.ranks = group->ranks(), .tree = select::tree_of(*group)};
    wanted.group = group;
    wanted.level_calls = true;
    const std::vector<int> firsts = group->host_first_ranks();
    const bool all = std::ranges::all_of(firsts, [&](int first) {
      wanted.rank = first;
      return plan::HostMatch::make(wanted).ok();
    });
    if (all) taken.push_back(algorithm);
  }
  return taken;
}

// Its plans are priced without what is within a host, which was measured.
LevelCalls::LevelCalls(LevelParts parts, Planner& planner, EnginePlans& streams, PlanEngine engine)
    : parts_(std::move(parts)), planning_(planner.planning()), streams_(streams) {
  if (!parts_.refusal.ok()) return;
  algorithms_ = level_algorithms(engine.algorithms, planning_.group);
  engine.algorithms = algorithms_;
  engine.near_link = select::LinkModel();
  engine.level_calls = true;
  plans_ = &planner.add(std::move(engine));
}

bool LevelCalls::is_of_interest(EngineWish wish) const {
  return VendorCalls::is_wanted(wish, planning_.model, most_near(*planning_.group));
}

Status LevelCalls::objection(const Request& request, EngineWish wish) {
  const bool by_price = wish == EngineWish::kAuto;
  if (!is_meant(wish) && !by_price) return Status::unsupported("the engine is another one");
  if (!parts_.refusal.ok()) return parts_.refusal;
  if (request.counts != nullptr) return Status::unsupported("each rank has a count of its own");
  const bool deterministic = streams_.options_of(request.extras).deterministic;
  const Key key{request.collective, request.type, request.op,   request.count,
                request.root,       by_price,     deterministic};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  constexpr size_t kMostKnown = 1 << 12;
  if (known_.size() >= kMostKnown) known_.clear();
  return known_.emplace(key, decide(request, by_price)).first->second;
}

Status LevelCalls::decide(const Request& request, bool by_price) {
  diagnosis::DescribedCall described = streams_.describe(request);
  if (Status lacks = parts_.library->objection(described); !lacks.ok()) return lacks;
  if (schedule::reduces(request.collective)) {
    if (!parts_.folds.ok()) return parts_.folds;
    if (request.op == types::ReduceOp::kAvg && !types::is_float(request.type)) {
      return Status::unsupported("averages of integers between hosts are Tutti's");
    }
  }
  const Result<const Prepared*> prepared = plans_->prepare(request, false, {});
  if (!prepared.ok()) return Status::unsupported(std::string(prepared.status().message()));
  return by_price ? compare_prices(request) : Status();
}

// As often as there are slices.
Result<double> LevelCalls::predict_library_ns(const plan::Plan& plan) const {
  const int ranks = most_near(*planning_.group);
  const auto slices = static_cast<double>(plan.slices * plan.turns);
  double ns = 0;
  for (const plan::LevelCall& call : plan.level_calls) {
    for (const auto& [kind, collective] : kPricedAs) {
      double bytes = 0;
      for (uint32_t i = 0; i < call.rows; ++i) {
        const plan::LevelRow& row = plan.level_rows[call.first + i];
        if (row.kind == kind) bytes += static_cast<double>(row.length * plan.element_bytes);
      }
      if (bytes == 0) continue;
      const std::optional<double> one = select::predict_vendor_ns(
          planning_.model.vendor, schedule::name_of(collective), ranks, bytes / slices);
      if (!one) {
        return Status::unsupported(std::string("nobody has measured its ") +
                                   schedule::name_of(collective) + " among " +
                                   std::to_string(ranks) + " ranks");
      }
      ns += *one * slices;
    }
  }
  return ns;
}

// By a plan that all ranks make alike.
Status LevelCalls::compare_prices(const Request& request) {
  const Result<plan::Plan> plan = plans_->plan_of_largest_host(request);
  if (!plan.ok()) return plan.status();
  const Result<double> within = predict_library_ns(plan.value());
  if (!within.ok()) return within.status();
  const Result<double> between = plans_->predict_ns(request, false);
  const Result<double> others = streams_.predict_ns(request, false);
  if (!between.ok() || !others.ok()) return {};
  const double mine = within.value() + between.value();
  if (mine < others.value()) return {};
  return Status::unsupported("with what was measured of it the call takes " + in_us(mine) +
                             " us, and by the model streams take " + in_us(others.value()));
}

Result<WholeCall> LevelCalls::take(const Request& request, bool in_place) {
  const Result<const Prepared*> prepared = plans_->prepare(request, in_place, {});
  if (!prepared.ok()) return prepared.status();
  const Prepared& ready = *prepared.value();
  return WholeCall{&ready.plan, ready.signature, ready.described, ready.label, ready.far_signature};
}

std::string LevelCalls::explain(const Request& request, bool in_place) {
  const Result<const Prepared*> prepared = plans_->prepare(request, in_place, {});
  if (!prepared.ok()) return std::string(prepared.status().message());
  return "by " + parts_.library->name() + " within hosts and messages between them, " +
         parts_.explain(prepared.value()->plan) + "; NCCL has " +
         exec::text_of(parts_.library->memory());
}

std::string LevelCalls::explain(const Status& objection) const {
  return "not by NCCL within hosts, since " + std::string(objection.message());
}

}  // namespace tutti::comm
