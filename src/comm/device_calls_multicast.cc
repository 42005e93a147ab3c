// The parts of DeviceCalls about reductions by the switch between devices.
#include <algorithm>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/log.h"
#include "src/comm/device_calls.h"
#include "src/comm/device_texts.h"
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

std::optional<SharedPlaces> DeviceCalls::shared_places(const PlannerOptions& planning,
                                                       const plan::Tuning& tuning) const {
  if (multicast_ == MulticastWish::kOff || !rank_->shares().ok()) return std::nullopt;
  std::set<std::pair<schedule::Collective, std::string_view>> sharing;
  for (const schedule::Algorithm& one : algorithms_) {
    if (!schedule::reduces(one.collective) || !can_share(one, planning, tuning)) continue;
    sharing.emplace(one.collective, one.name);
  }
  SharedPlaces places;
  places.link = select::switch_link_of(planning.model.devices);
  places.can = [sharing = std::move(sharing)](const schedule::Algorithm& one) {
    return sharing.contains({one.collective, one.name});
  };
  places.may = [this](const Request& request) { return may_share_places(request); };
  places.must = multicast_ == MulticastWish::kAlways;
  return places;
}

bool DeviceCalls::may_share_places(const Request& request) const {
  using types::ReduceOp;
  if (!schedule::reduces(request.collective)) return false;
  if (request.op == ReduceOp::kScaledSum || request.op == ReduceOp::kAvg) return false;
  if (plans_->options_of(request.extras).deterministic) return false;
  return rank_->shares(request.type, request.op);
}

// The ranks know the same of each other's registrations, so all of them read or none.
Result<RegisteredCall> DeviceCalls::find_direct(const Request& request, bool in_place) {
  Result<RegisteredCall> direct =
      places_->find(request, in_place, self_, plans_->ranks(), frame_bytes_ + 1);
  if (!direct.ok()) return direct;
  const Status why = objection_to_direct(request, direct.value().in_place);
  return why.ok() ? std::move(direct) : why;
}

Status DeviceCalls::objection_to_direct(const Request& request, bool in_place) {
  if (multicast_ == MulticastWish::kOff || !rank_->shares().ok()) return {};
  if (request.counts != nullptr || !may_share_places(request)) return {};
  const DirectKey key{request.collective, request.type, request.op, request.count, in_place};
  const auto found = direct_.find(key);
  if (found != direct_.end()) return found->second;
  constexpr size_t kMostKnown = 1 << 12;
  if (direct_.size() >= kMostKnown) direct_.clear();
  return direct_.emplace(key, weigh_direct(request, in_place)).first->second;
}

// Peers' memory is read once and nothing is copied, but links carry more.
Status DeviceCalls::weigh_direct(const Request& request, bool in_place) const {
  const std::vector<select::Candidate> candidates = plans_->candidates(request, in_place);
  if (candidates.empty() || !candidates.front().shares) return {};
  const double shared = candidates.front().predicted_ns;
  if (multicast_ == MulticastWish::kAlways) {
    return Status::unsupported("TUTTI_MULTICAST is always");
  }
  const Result<double> direct = plans_->predict_direct_ns(request, in_place);
  if (!direct.ok() || direct.value() <= shared) return {};
  return Status::unsupported("a switch folds it in " + in_us(shared) +
                             " us, by the model, and reading the peers takes " +
                             in_us(direct.value()));
}

void DeviceCalls::tell(Logger& log, const std::string& rank) const {
  if (rank_ == nullptr) return;
  if (!rank_->rings().empty()) log.info("{}: {}", rank, rank_->rings());
  const Status& shares = rank_->shares();
  if (multicast_ == MulticastWish::kOff || is_networked()) return;
  if (!shares.ok()) log.info("{}: no multicast among devices: {}", rank, shares.message());
}

namespace {

/// Of the cheapest candidates of either way, of which some may have both.
std::string prices_text(std::span<const select::Candidate> candidates) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  double shared = kNever, apart = kNever;
  for (const select::Candidate& one : candidates) {
    if (!one.rejected.empty()) continue;
    const bool has_both = one.other_ns > 0;
    if (has_both) shared = std::min(shared, one.shares ? one.predicted_ns : one.other_ns);
    apart = std::min(apart, one.shares ? one.other_ns : one.predicted_ns);
  }
  if (shared == kNever) return "";
  return "; predicted " + in_us(shared) + " us by multicast, " + in_us(apart) + " us without";
}

}  // namespace

// Why not, where somebody wishes for it wherever it can be.
std::string DeviceCalls::multicast_text(const Request& request, bool in_place) const {
  if (rank_->shares().ok()) return prices_text(plans_->candidates(request, in_place));
  if (multicast_ != MulticastWish::kAlways) return "";
  return "; not by multicast, since " + std::string(rank_->shares().message());
}

}  // namespace tutti::comm
