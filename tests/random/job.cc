#include "tests/random/job.h"

#include <algorithm>

namespace tutti::random_calls {

using reference::Collective;

const char* name_of(Way way) {
  constexpr const char* kNames[] = {"blocking", "host", "two hosts", "group", "host group"};
  return kNames[static_cast<int>(way)];
}

const char* name_of(Arrival arrival) {
  constexpr const char* kNames[] = {"put signal", "put, signal", "put, flush"};
  return kNames[static_cast<int>(arrival)];
}

const char* name_of(const Call& call, const Access* access) {
  if (call.kind == Kind::kPairs) return "send/recv";
  if (call.kind == Kind::kCollective) return reference::name_of(call.problem.collective);
  return access != nullptr && access->is_get ? "get" : name_of(call.arrival);
}

std::string op_name(const Call& call) {
  if (call.scalar == Scalar::kNone) return reference::name_of(call.problem.op);
  return call.scalar == Scalar::kImmediate ? "scaled" : "scaled device";
}

size_t Job::calls() const {
  size_t sum = 0;
  for (const Batch& batch : batches) sum += batch.calls.size();
  return sum;
}

uint64_t bytes_of(const Call& call) {
  const reference::Problem& p = call.problem;
  uint64_t elements = 0;
  for (int rank = 0; rank < p.ranks; ++rank) {
    elements = std::max({elements, reference::input_elements(p, rank),
                         reference::output_elements(p, rank)});
  }
  return elements * reference::size_of(p.type);
}

namespace {

std::string describe_transfers(const Call& call) {
  std::string text = "send/recv";
  for (const Transfer& t : call.transfers) {
    text += " " + std::to_string(t.source) + ">" + std::to_string(t.target) + ":" +
            std::to_string(t.count) + "x" + reference::name_of(t.type);
  }
  return text;
}

std::string describe_accesses(const Call& call) {
  std::string text = std::string(name_of(call)) + " " + std::to_string(call.signal);
  for (const Access& a : call.accesses) {
    text += a.is_get ? " get " : a.reads_back ? " put and get " : " put ";
    text += std::to_string(a.origin) + ">" + std::to_string(a.target) + ":" +
            std::to_string(a.bytes) + " at " + std::to_string(a.window) + "+" +
            std::to_string(a.offset);
  }
  return text;
}

constexpr uint64_t kStepsPerBatch = 16;

}  // namespace

std::string describe(const Call& call) {
  if (call.kind == Kind::kPairs) return describe_transfers(call);
  if (call.kind == Kind::kOneSided) return describe_accesses(call);
  const reference::Problem& p = call.problem;
  std::string text = reference::name_of(p.collective);
  if (p.collective == Collective::kBarrier) return text;
  if (reference::has_counts(p.collective)) {
    text += " counts";
    for (uint64_t count : p.counts) text += " " + std::to_string(count);
    if (p.gap > 0) text += " with gaps of " + std::to_string(p.gap);
  } else {
    text += " count " + std::to_string(p.count);
  }
  text += std::string(" ") + reference::name_of(p.type);
  if (reference::reduces(p.collective)) {
    constexpr const char* kValues[] = {"any", "exact", "rounded"};
    text += std::string(" ") + op_name(call) + " values " + kValues[static_cast<int>(call.values)];
  }
  if (reference::is_rooted(p.collective)) text += " root " + std::to_string(p.root);
  if (call.in_place) text += " in place";
  if (call.registered) text += " registered";
  if (!call.algorithm.empty()) text += " algorithm " + call.algorithm;
  if (call.deterministic) text += " deterministic";
  return text;
}

uint64_t step_of(size_t batch, size_t call) { return (batch + 1) * kStepsPerBatch + call; }

std::string describe_step(const Job& job, uint64_t step) {
  const uint64_t index = step / kStepsPerBatch;
  if (index == 0) return "start (init, registration)";
  if (index > job.batches.size()) return "end (deregistration, destroy)";
  const Batch& batch = job.batches[index - 1];
  std::string text = "batch " + std::to_string(index - 1) + " (" + name_of(batch.way) +
                     (batch.handles ? ", handles)" : ")");
  const uint64_t call = step % kStepsPerBatch;
  if (call < batch.calls.size()) {
    return text + " call " + std::to_string(call) + ": " + describe(batch.calls[call]);
  }
  text += " waiting for";
  for (const Call& queued : batch.calls) text += " [" + describe(queued) + "]";
  return text;
}

std::string describe(const Job& job) {
  std::string text = "job " + std::to_string(job.number) + ": " + std::to_string(job.ranks()) +
                     " ranks in " + std::to_string(job.shape.process_count()) +
                     " processes, network " + name_of(job.network);
  if (job.uses_registered) text += ", registered memory";
  if (job.ordinary_windows) text += ", ordinary windows";
  return text + ", " + std::to_string(job.calls()) + " calls";
}

}  // namespace tutti::random_calls
