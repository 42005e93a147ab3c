#include "src/comm/collectives.h"

#include <utility>

namespace tutti::comm {

Collectives::Collectives(const Membership& membership, exec::HostExecutor& executor,
                         CallFrame& frame, CallBuffers buffers, PlannerOptions planning)
    : membership_(membership),
      executor_(executor),
      frame_(frame),
      recorder_(frame.recorder()),
      buffers_(buffers),
      planner_(std::move(planning)),
      vectors_(planner_.host(), executor),
      network_(executor.state()) {}

bool Collectives::is_in_place(const Request& request) const {
  return request.counts != nullptr ? comm::is_in_place(request, membership_.rank())
                                   : buffers_.is_in_place(request);
}

inline Result<const Prepared*> Collectives::prepare(const Request& request) {
  if (repeat_.is(request))
    return planner_.host().prepare(request, repeat_.placement.holds(request), {});
  const BufferDistance placement = buffers_.placement_of(request);
  if (buffers_.is_always_staged(buffers_.output_bytes(request))) repeat_ = {request, placement};
  return planner_.host().prepare(request, placement.holds(request), buffers_.reach_of(request));
}

inline exec::Call Collectives::call_of(const Request& request, const Prepared& prepared) const {
  return {request.send,
          request.recv,
          prepared.signature,
          deadline_from_now(request.extras),
          schedule::name_of(request.collective),
          prepared.registered,
          prepared.far_signature};
}

// The request that runs in the place of one for a scaled sum.
Result<Request> Collectives::contribute(const Request& request) {
  if (request.op != types::ReduceOp::kScaledSum) return request;
  const uint64_t elements = buffers_.send_elements(request);
  Request placed = contribution_.place(request, elements);
  // Before anything of the user's is written: this call may be refused.
  if (request.counts == nullptr) {
    if (const auto prepared = prepare(placed); !prepared.ok()) return prepared.status();
  }
  Contribution::scale(request, placed, elements);
  return placed;
}

// Flattened: the way of every small call, where each step that is not inlined shows.
[[gnu::flatten]] Status Collectives::run(const Request& request) {
  executor_.claim_cells();
  frame_.check_failures();
  const bool plain = request.counts == nullptr && request.op != types::ReduceOp::kScaledSum;
  if (plain && repeat_.is(request)) [[likely]] {
    const Prepared* ready = planner_.host().repeat(request, repeat_.placement.holds(request), {});
    if (ready != nullptr && ready->fast) [[likely]]
      return run_fast(request, *ready);
  }
  return run_any(request);
}

inline Status Collectives::run_fast(const Request& request, const Prepared& ready) {
  recorder_.begin(ready.label, executor_.state().calls() + 1);
  Status status = ready.fast->run(executor_, call_of(request, ready));
  if (status.ok()) [[likely]] {
    recorder_.end();
  } else {
    frame_.conclude(status);
  }
  return status;
}

[[gnu::noinline]] Status Collectives::run_any(const Request& request) {
  Status status = run_slowly(request);
  buffers_.end_use();
  return status;
}

Status Collectives::run_slowly(const Request& request) {
  if (request.counts != nullptr) return run_vectors(request);
  if (request.op != types::ReduceOp::kScaledSum) return run_plan(request);
  if (!frame_.status().ok()) return frame_.status();
  const Result<Request> scaled = contribute(request);
  return scaled.ok() ? run_plan(scaled.value()) : scaled.status();
}

Status Collectives::run_plan(const Request& request) {
  if (!frame_.status().ok()) return frame_.status();
  const Result<const Prepared*> prepared = prepare(request);
  if (!prepared.ok()) return prepared.status();
  const Prepared& ready = *prepared.value();
  frame_.state().describe(ready.described);
  if (ready.fast) return run_fast(request, ready);
  recorder_.begin(ready.label, frame_.state().calls() + 1);
  Status status = executor_.run(ready.program, call_of(request, ready));
  frame_.conclude(status);
  return status;
}

Status Collectives::begin(const Request& request, uint64_t ticket) {
  frame_.check_failures();
  outcome_ = Status();
  if (request.counts != nullptr) return begin_vectors(request, ticket);
  const Result<Request> scaled =
      frame_.status().ok() ? contribute(request) : Result<Request>(request);
  const Status ready = frame_.status().ok() ? scaled.status() : frame_.status();
  const Result<const Prepared*> prepared =
      ready.ok() ? prepare(scaled.value()) : Result<const Prepared*>(ready);
  const trace::Label label =
      prepared.ok() ? prepared.value()->label : frame_.labels().label(request);
  recorder_.begin_queued(ticket, label, frame_.state().calls() + 1);
  if (!prepared.ok()) return prepared.status();
  frame_.state().describe(prepared.value()->described);
  executor_.start(prepared.value()->program, call_of(scaled.value(), *prepared.value()));
  return {};
}

Status Collectives::begin(const Request& request, const NetworkPart& part, uint64_t ticket) {
  frame_.check_failures();
  outcome_ = Status();
  const trace::Label label = frame_.labels().label(request, part.algorithm);
  recorder_.begin_queued(ticket, label, frame_.state().calls() + 1);
  if (!frame_.status().ok()) return frame_.status();
  frame_.state().describe(part.described);
  exec::Call call = part.call;
  call.deadline_ns = deadline_from_now(request.extras);
  network_.start(part.network, call);
  return {};
}

plan::Progress Collectives::advance() {
  if (network_.is_running()) return network_.advance();
  const plan::Progress progress = executor_.advance();
  if (progress != plan::Progress::kDone || !vectors_.open() || !frame_.status().ok()) {
    return progress;
  }
  return start_vectors() ? plan::Progress::kMoved : plan::Progress::kDone;
}

}  // namespace tutti::comm
