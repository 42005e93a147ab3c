#include "src/plan/bind.h"

#include "src/plan/emit.h"
#include "src/plan/passes.h"

namespace tutti::plan {

Plan bind(const Match& match, const BindRequest& request, const Tuning& tuning) {
  const Geometry geometry = measure(match, request, tuning);
  Plan plan = Emitter(match, request, geometry).run();
  const auto note = [&](bool changed, const char* pass) {
    if (!changed) return;
    if (!plan.passes.empty()) plan.passes += ", ";
    plan.passes += pass;
  };
  plan.slices_in_flight = plan.lanes.size() > 1 ? 4 : 1;
  if (match.mode == Mode::kDirect && tuning.fuse) note(forward_stores(plan), "store forwarding");
  note(scale_contributions(plan, match, request), "pre/post operations");
  const uint64_t bytes =
      schedule::output_elements(match.shape, match.schedule.rank, request.count) *
      geometry.element_bytes;
  Bypass bypass = Bypass::kNone;
  if (bytes >= tuning.streaming_store_bytes) {
    if (geometry.is_long_pipeline) bypass = Bypass::kFinalCopies;
    if (match.mode == Mode::kDirect) bypass = Bypass::kAll;
  }
  note(choose_kernels(plan, request, match.schedule.rank, bypass), "streaming stores");
  return plan;
}

}  // namespace tutti::plan
