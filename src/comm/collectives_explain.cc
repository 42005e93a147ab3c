// The parts of Collectives that say what a call would do, and how long it should take.
#include <algorithm>

#include "src/base/decimal.h"
#include "src/comm/collectives.h"
#include "src/plan/match.h"

namespace tutti::comm {

// The rounds that run before the data, for explain().
std::string Collectives::rounds_before(const Request& request, bool in_place) {
  if (!request.counts->is_private()) return "";
  const Result<bool> forwards =
      planner_.host().forwards(request, longest_of(*request.counts), in_place);
  const bool sizes = forwards.ok() && forwards.value();
  return sizes ? ", after a count round and a size round" : ", after a count round";
}

// Which of the numbers that ranks of this host have measured decided how bytes are copied.
std::string Collectives::explain_ways(const select::Candidate& chosen, const Request& request,
                                      BufferReach reach) {
  const std::optional<select::CopyChoice> ways = planner_.host().weigh(chosen, request, reach);
  if (!ways) return "";
  return std::string("  single copy: ") + (ways->takes_single() ? "yes" : "no") + ", " +
         three_digits(ways->single_ns / 1000) + " us by reading peers, " +
         three_digits(ways->staged_ns / 1000) +
         " us through shared memory (a tenth less decides), by " +
         planner_.planning().model_origin + "\n";
}

std::string Collectives::explain(const Request& request) {
  const bool shares = request.counts != nullptr;
  const bool in_place = is_in_place(request);
  const uint64_t count = shares ? longest_of(*request.counts) : request.count;
  const BufferReach reach = shares ? BufferReach{} : buffers_.reach_of(request);
  const Result<const Prepared*> prepared =
      shares ? planner_.host().prepare_vectors(request, count, in_place, {})
             : planner_.host().prepare(request, in_place, reach);
  buffers_.end_use();  // nothing runs
  std::string text = std::string(name_of(request)) + " of " + (shares ? "shares up to " : "") +
                     std::to_string(count) + " " + types::name_of(request.type) + " on " +
                     std::to_string(membership_.ranks()) + " ranks: ";
  if (!prepared.ok()) return text + std::string(prepared.status().message()) + "\n";
  const plan::Plan& plan = prepared.value()->plan;
  text += plan.algorithm + ", " + plan::name_of(plan.match->mode) + ", " +
          std::to_string(plan.slices) + (plan.slices == 1 ? " slice" : " slices") +
          (prepared.value()->fast ? ", superinstructions" : "") +
          (plan.passes.empty() ? "" : ", " + plan.passes) +
          (plan.match->wire.encodes() ? ", encoded" : "") + ", over " + membership_.transports() +
          (shares ? rounds_before(request, in_place) : "") + "\n";
  if (const std::string why = buffers_.why_not_read(); !why.empty()) {
    text += "  " + why + "\n";
  }
  text += planner_.host().explain_wire(request, in_place);
  const std::vector<select::Candidate> candidates = planner_.host().candidates(request, in_place);
  if (!candidates.empty()) text += explain_ways(candidates.front(), request, reach);
  for (const select::Candidate& candidate : candidates) {
    text += "  " + std::string(candidate.algorithm->name);
    if (candidate.parameters.lanes > 1) text += ":" + std::to_string(candidate.parameters.lanes);
    if (candidate.far_slices > 0) {
      const char* const slices = candidate.far_slices == 1 ? " slice" : " slices";
      text += " in " + std::to_string(candidate.far_slices) + slices + " between hosts";
    }
    text += candidate.encodes ? ", encoded: " : ": ";
    text += candidate.rejected.empty()
                ? "predicted " + three_digits(candidate.predicted_ns / 1000) + " us" +
                      (candidate.overflows ? ", its slices hardly fit a frame" : "")
                : "not used: " + candidate.rejected;
    text += "\n";
  }
  const std::string& origin = planner_.planning().model_origin;
  return origin.empty() ? text : text + "  predicted by " + origin + "\n";
}

Result<double> Collectives::predict_ns(const Request& request) {
  return planner_.host().predict_ns(request, is_in_place(request));
}

}  // namespace tutti::comm
