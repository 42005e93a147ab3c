#include "src/plan/bind.h"

#include <algorithm>
#include <string>

#include "src/plan/emit.h"
#include "src/plan/passes.h"
#include "src/plan/shared_places.h"

namespace tutti::plan {

namespace {

UserStores user_stores(const Match& match, const BindRequest& request,
                       const SliceGeometry& geometry, const Tuning& tuning) {
  using Of = UserStores::Of;
  using types::StoreHint;
  const uint64_t bytes =
      schedule::output_elements(match.shape, match.schedule.rank, request.count) *
      geometry.element_bytes;
  if (geometry.is_long_pipeline) {
    const bool streams = bytes >= tuning.pipeline_streaming_store_bytes;
    return {Of::kFinalCopies, streams ? StoreHint::kStreaming : StoreHint::kVectors};
  }
  const bool streams = match.mode == Mode::kDirect && bytes >= tuning.streaming_store_bytes;
  return streams ? UserStores{Of::kAll, StoreHint::kStreaming} : UserStores{};
}

}  // namespace

Plan bind(const Match& match, const BindRequest& request, const Tuning& tuning) {
  const SliceGeometry geometry = measure(match, request, tuning);
  Plan plan = Emitter(match, request, geometry).run();
  const auto note = [&](bool changed, const char* pass) {
    if (!changed) return;
    if (!plan.passes.empty()) plan.passes += ", ";
    plan.passes += pass;
  };
  plan.type = request.type;
  plan.operation = request.op == types::ReduceOp::kAvg ? types::ReduceOp::kSum : request.op;
  const auto in_flight = std::min<uint64_t>(plan.slices, kSlicesInFlight);
  plan.slices_in_flight = plan.lanes.size() > 1 ? static_cast<uint32_t>(in_flight) : 1;
  if (match.mode == Mode::kDirect && tuning.fuse) note(forward_stores(plan), "store forwarding");
  note(scale_contributions(plan, match, request), "pre/post operations");
  const bool averages = request.op == types::ReduceOp::kAvg;
  if (request.shares_places && !averages && match.mode == Mode::kStaged) {
    const auto rank = static_cast<uint32_t>(match.schedule.rank);
    note(share_places(plan, rank, static_cast<uint32_t>(match.shape.ranks)), "shared places");
  }
  const UserStores stores = user_stores(match, request, geometry, tuning);
  const bool streams = stores.hint == types::StoreHint::kStreaming;
  note(choose_stores(plan, match.schedule.rank, stores),
       streams ? "streaming stores" : "copies by vectors");
  plan.one_way = match.flows_one_way || schedule::traits_of(match.shape.collective).rooted();
  note(take_turns(plan, tuning.turns, tuning.lands), "turns");
  return plan;
}

Status check_fit(const Plan& plan, const Tuning& tuning) {
  const uint64_t longest_frame = std::max(tuning.region_bytes, tuning.spanned_bytes);
  for (const LanePlan& lane : plan.lanes) {
    if (lane.frame_bytes <= longest_frame) continue;
    return Status::unsupported(plan.algorithm + " stages " + std::to_string(lane.frame_bytes) +
                               " bytes for one slice, more than a region of the staging ring (" +
                               std::to_string(longest_frame) +
                               "): raise TUTTI_RING_BYTES or choose another algorithm");
  }
  return {};
}

}  // namespace tutti::plan
