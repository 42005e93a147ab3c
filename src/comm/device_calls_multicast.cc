// The parts of DeviceCalls about reductions by the switch between devices.
#include <algorithm>
#include <set>

#include "src/base/log.h"
#include "src/comm/device_calls.h"
#include "src/plan/match.h"
#include "src/plan/shared_places.h"

namespace tutti::comm {
namespace {

constexpr uint64_t kSomeElements = 64;  // of each block of an example

/// Whether its plans can have shared places.
bool can_share(const schedule::Algorithm& algorithm, const PlannerOptions& planning,
               const plan::Tuning& tuning) {
  const int ranks = planning.group->ranks();
  plan::MatchRequest wanted;
  wanted.algorithm = &algorithm;
  wanted.parameters.ranks = ranks;
  wanted.rank = planning.rank;
  wanted.group = planning.group;
  const Result<plan::Match> match = plan::match(wanted);
  if (!match.ok()) return false;
  plan::BindRequest request;
  request.count = static_cast<uint64_t>(ranks) * kSomeElements;
  request.shares_places = true;
  const plan::Plan plan = plan::bind(match.value(), request, tuning);
  return std::any_of(plan.ops.begin(), plan.ops.end(), [&](const plan::Op& op) {
    return plan::shared_place_of(plan, op, static_cast<uint32_t>(ranks)).has_value();
  });
}

}  // namespace

// Of a collective of which some algorithm can, the others are left out.
std::vector<schedule::Algorithm> sharing_algorithms(std::vector<schedule::Algorithm> algorithms,
                                                    const PlannerOptions& planning,
                                                    const plan::Tuning& tuning) {
  std::set<schedule::Collective> shared;
  std::vector<bool> can;
  for (const schedule::Algorithm& one : algorithms) {
    can.push_back(schedule::reduces(one.collective) && can_share(one, planning, tuning));
    if (can.back()) shared.insert(one.collective);
  }
  std::vector<schedule::Algorithm> kept;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    if (can[i] || !shared.contains(algorithms[i].collective)) kept.push_back(algorithms[i]);
  }
  return kept;
}

// Of `s` bytes on each of n devices that fold a block each and publish it, 2 (n - 1) / n * s cross
// each device's link in either direction; where the switch folds and stores to all, it is
// (n + 1) / n * s.
bool DeviceCalls::shares_places(const Request& request) const {
  constexpr int kLeastRanks = 4;  // from which the second is less
  if (multicast_ == MulticastWish::kOff || !rank_->shares().ok()) return false;
  if (!schedule::reduces(request.collective) || is_scaled(request)) return false;
  if (plans_->options_of(request.extras).deterministic) return false;
  if (!rank_->shares(request.type, request.op)) return false;
  return multicast_ == MulticastWish::kAlways || plans_->ranks() >= kLeastRanks;
}

void DeviceCalls::tell(Logger& log, const std::string& rank) const {
  if (rank_ == nullptr) return;
  if (!rank_->rings().empty()) log.info("{}: {}", rank, rank_->rings());
  const Status& shares = rank_->shares();
  if (multicast_ == MulticastWish::kOff || is_networked()) return;
  if (!shares.ok()) log.info("{}: no multicast among devices: {}", rank, shares.message());
}

// Where somebody wishes for it wherever it can be.
std::string DeviceCalls::multicast_text() const {
  const bool wished = multicast_ == MulticastWish::kAlways;
  if (!wished || rank_->shares().ok()) return "";
  return "; not by multicast, since " + std::string(rank_->shares().message());
}

}  // namespace tutti::comm
