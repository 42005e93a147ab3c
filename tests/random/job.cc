#include "tests/random/job.h"

#include <algorithm>
#include <numeric>

#include "tests/support/dice.h"

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

bool Batch::of_several() const {
  return std::ranges::any_of(
      calls, [&](const Call& call) { return call.communicator != calls[0].communicator; });
}

namespace {

// A rank that waits for a call that another rank issues later must not keep that rank from issuing
// it: options of functions wait for what their communicator has queued.
bool may_differ(const Batch& batch) {
  return batch.grouped() || (batch.way == Way::kTwoHost && batch.handles);
}

bool keep_order(const Batch& batch, size_t a, size_t b) {
  if (batch.calls[a].communicator == batch.calls[b].communicator) return true;
  return !batch.grouped() && stream_of(a) == stream_of(b);
}

}  // namespace

// Every chain of calls is in the order of the batch, and so no circle of ranks can wait.
std::vector<size_t> issue_order(const Batch& batch, int rank) {
  std::vector<size_t> left(batch.calls.size());
  std::iota(left.begin(), left.end(), size_t{0});
  if (!may_differ(batch)) return left;
  testing_support::Dice dice(
      testing_support::mix(batch.calls[0].seed + 1, static_cast<uint64_t>(rank)));
  std::vector<size_t> order;
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (const size_t call : left) {
      const bool waits = std::ranges::any_of(
          left, [&](size_t earlier) { return earlier < call && keep_order(batch, earlier, call); });
      if (!waits) ready.push_back(call);
    }
    order.push_back(dice.pick(ready));
    std::erase(left, order.back());
  }
  return order;
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
    elements = std::max(
        {elements, reference::input_elements(p, rank), reference::output_elements(p, rank)});
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
constexpr uint64_t kChanges = kStepsPerBatch - 1;

std::string describe(const CallOptions& options) {
  std::string text;
  if (!options.algorithm.empty()) text += " algorithm " + options.algorithm;
  if (options.deterministic) text += " deterministic";
  if (options.priority != 0) text += " priority " + std::to_string(options.priority);
  if (options.deadline) text += " with a deadline";
  return text;
}

std::string describe_collective(const Call& call) {
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
  return text;
}

}  // namespace

std::string describe(const Call& call) {
  std::string text = "communicator " + std::to_string(call.communicator) + " ";
  if (call.kind == Kind::kOneSided) return text + describe_accesses(call);
  text += call.kind == Kind::kPairs ? describe_transfers(call) : describe_collective(call);
  if (call.allocated) text += " allocated";
  if (call.on_device) text += " on device";
  return text + describe(call.options);
}

uint64_t step_of(size_t batch, size_t call) { return (batch + 1) * kStepsPerBatch + call; }
uint64_t step_of_changes(size_t batch) { return step_of(batch, kChanges); }

std::string describe_step(const Job& job, uint64_t step) {
  const uint64_t index = step / kStepsPerBatch;
  if (index == 0) return "start (init, registration)";
  if (index > job.batches.size()) return "end (deregistration, destroy)";
  const Batch& batch = job.batches[index - 1];
  std::string text = "batch " + std::to_string(index - 1) + " (" + name_of(batch.way) +
                     (batch.handles ? ", handles)" : ")");
  const uint64_t call = step % kStepsPerBatch;
  if (call == kChanges) {
    text += " before:";
    for (const Change& change : batch.changes) {
      text += " [" + describe(change, job.communicators) + "]";
    }
    return text;
  }
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
  text += ", " + std::to_string(job.communicators.size()) + " communicators";
  if (job.has_regions) text += ", allocated memory";
  return text + ", " + std::to_string(job.calls()) + " calls";
}

}  // namespace tutti::random_calls
