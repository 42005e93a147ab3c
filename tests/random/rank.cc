#include "tests/random/rank.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/random/issue.h"
#include "tests/random/memory.h"
#include "tests/random/one_sided.h"
#include "tests/random/verdict.h"
#include "tests/support/dice.h"

namespace tutti::random_calls {
namespace {

using reference::Collective;
using testing_support::Member;

constexpr uint64_t kJobLimitNs = 60'000'000'000;

class Rank {
 public:
  Rank(const Job& job, Member& member, const Fault& fault) : job_(job), member_(member) {
    if (fault) fault(library_, member.rank());
  }
  ~Rank() {
    if (comm_ != nullptr) tuttiCommAbort(comm_);
    for (tuttiStream_t stream : streams_) tuttiStreamDestroy(stream);
    for (void* memory : registered_) tuttiMemFree(memory);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool run() {
    if (!open()) return false;
    for (size_t i = 0; i < job_.batches.size(); ++i) {
      if (!run_batch(i)) return false;
    }
    return close();
  }

 private:
  bool ok(tuttiResult_t result, const char* what, tuttiComm_t comm) const {
    return verdict_.ok(result, what, comm);
  }

  bool open() {
    member_.at(0);
    tuttiUniqueId id;
    if (!member_.take_id(id)) return false;
    tuttiResult_t made = tuttiCommInitRank(&comm_, member_.ranks(), id, member_.rank());
    if (!ok(made, "tuttiCommInitRank", nullptr)) return false;
    int ranks = -1, rank = -1;
    if (!ok(tuttiCommCount(comm_, &ranks), "tuttiCommCount", comm_)) return false;
    if (!ok(tuttiCommUserRank(comm_, &rank), "tuttiCommUserRank", comm_)) return false;
    if (ranks != member_.ranks() || rank != member_.rank()) {
      return verdict_.wrong("another rank or count");
    }
    for (tuttiStream_t& stream : streams_) {
      if (!ok(tuttiStreamCreate(&stream), "tuttiStreamCreate", nullptr)) return false;
    }
    return (!job_.uses_registered ||
            (take_registered(regions_.send) && take_registered(regions_.recv))) &&
           one_sided_.open(comm_);
  }

  bool take_registered(Region& region) {
    void* memory = nullptr;
    void* handle = nullptr;
    if (!ok(tuttiMemAlloc(&memory, kRegisteredBytes), "tuttiMemAlloc", nullptr)) return false;
    registered_.push_back(memory);
    tuttiResult_t done = tuttiCommRegister(comm_, memory, kRegisteredBytes, &handle);
    if (!ok(done, "tuttiCommRegister", comm_)) return false;
    handles_.push_back(handle);
    region = Region(static_cast<std::byte*>(memory), kRegisteredBytes);
    return true;
  }

  bool close() {
    member_.at(step_of(job_.batches.size(), 0));
    if (!one_sided_.close()) return false;
    for (void* handle : handles_) {
      if (!ok(tuttiCommDeregister(comm_, handle), "tuttiCommDeregister", comm_)) return false;
    }
    tuttiComm_t comm = std::exchange(comm_, nullptr);
    return ok(tuttiCommDestroy(comm), "tuttiCommDestroy", comm);
  }

  bool run_batch(size_t index) {
    const Batch& batch = job_.batches[index];
    regions_.send.reset();
    regions_.recv.reset();
    memory_.clear();
    requests_.assign(batch.calls.size(), {});
    for (const Call& call : batch.calls) {
      memory_.push_back(std::make_unique<CallMemory>(call, member_.rank(), &regions_));
    }
    if (batch.grouped() && !batch.handles && !set_options(batch.calls[0])) return false;
    if (batch.grouped() && !ok(tuttiGroupStart(), "tuttiGroupStart", nullptr)) return false;
    for (size_t i = 0; i < batch.calls.size(); ++i) {
      member_.at(step_of(index, i));
      be_late(batch.calls[i]);
      if (!issue(batch, i)) return false;
      if (batch.way == Way::kBlocking && !complete(i)) return false;
    }
    member_.at(step_of(index, batch.calls.size()));
    return complete_all(batch);
  }

  // What arrives one-sided arrives beside all calls of the batch.
  bool complete_all(const Batch& batch) {
    bool one_sided = false;
    for (size_t i = 0; i < batch.calls.size(); ++i) {
      if (batch.calls[i].kind != Kind::kOneSided) continue;
      one_sided = true;
      if (!one_sided_.await(batch.calls[i], stream_of(batch.way, i))) return false;
    }
    if (batch.grouped() && !ok(tuttiGroupEnd(), "tuttiGroupEnd", nullptr)) return false;
    // By handles in another order than that of the calls: each says that its own is complete.
    const size_t calls = batch.calls.size();
    for (size_t i = 0; batch.handles && i < calls; ++i) {
      if (!complete((batch.calls[0].seed + calls - i) % calls)) return false;
    }
    if (!synchronize(batch.way)) return false;
    for (size_t i = 0; i < calls; ++i) {
      if (!complete(i)) return false;
    }
    return !one_sided || one_sided_.finish(batch);
  }

  bool synchronize(Way way) {
    if (way == Way::kBlocking || way == Way::kGroup) return true;
    for (tuttiStream_t stream : streams_) {
      if (!ok(tuttiStreamSynchronize(stream), "tuttiStreamSynchronize", nullptr)) return false;
    }
    return true;
  }

  // Looks at a call's memory, once: the call is complete, or its handles say when it is, either by
  // a test, which the wait that ends them follows, or by the wait.
  bool complete(size_t i) {
    if (memory_[i] == nullptr) return true;
    const std::vector<tuttiRequest_t> requests = std::exchange(requests_[i], {});
    const bool tests = ++completed_ % 2 == 0;
    const auto is_done = [&](tuttiRequest_t r) { return tests ? test(r) : wait(r); };
    if (!std::ranges::all_of(requests, is_done)) return false;
    if (const std::string message = memory_[i]->check(); !message.empty()) {
      return verdict_.wrong("call " + std::to_string(i) + ": " + message);
    }
    if (tests && !std::ranges::all_of(requests, [&](tuttiRequest_t r) { return wait(r); })) {
      return false;
    }
    memory_[i].reset();  // not before: after a failure the library may still use it
    return true;
  }

  bool test(tuttiRequest_t request) {
    for (int done = 0;;) {
      const tuttiResult_t result = library_.request_test(request, &done);
      if (!ok(result, "tuttiRequestTest", comm_)) return false;
      if (done != 0) return true;
      testing_support::sleep_ns(20'000);
    }
  }

  bool wait(tuttiRequest_t request) {
    return ok(library_.request_wait(request), "tuttiRequestWait", comm_);
  }

  // Ranks do not come together in real life; now and then one comes very late.
  void be_late(const Call& call) {
    const auto rank = static_cast<uint64_t>(member_.rank());
    const uint64_t chance = testing_support::mix(call.seed, rank + 1000);
    if (chance % 8 == 0) testing_support::sleep_ns((chance >> 8) % 300'000);
    if (chance % 200 == 1) testing_support::sleep_ns(5'000'000);
  }

  static tuttiOptions_t options_of(const Call& call) {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = call.algorithm.empty() ? nullptr : call.algorithm.c_str();
    options.deterministic = call.deterministic ? 1 : 0;
    return options;
  }

  bool set_options(const Call& call) {
    if (algorithm_ == call.algorithm && deterministic_ == call.deterministic) return true;
    algorithm_ = call.algorithm;
    deterministic_ = call.deterministic;
    const tuttiOptions_t options = options_of(call);
    return ok(tuttiCommSetOptions(comm_, &options), "tuttiCommSetOptions", comm_);
  }

  tuttiStream_t stream_of(Way way, size_t i) const {
    if (way == Way::kHost || way == Way::kHostGroup) return streams_[0];
    return way == Way::kTwoHost ? streams_[i % 2] : tuttiBlocking();
  }

  bool issue(const Batch& batch, size_t i) {
    const Call& call = batch.calls[i];
    const tuttiStream_t stream = stream_of(batch.way, i);
    if (call.kind == Kind::kOneSided) {
      return one_sided_.issue(call, batch.way == Way::kBlocking, stream);
    }
    if (!batch.grouped() && !batch.handles && !set_options(call)) return false;
    if (call.kind == Kind::kPairs) return issue_transfers(batch, i, stream);
    if (call.scalar == Scalar::kNone) return issue(batch, i, call.problem.op, stream);
    return issue_scaled(batch, i, stream);
  }

  bool issue_scaled(const Batch& batch, size_t i, tuttiStream_t stream) {
    const Call& call = batch.calls[i];
    CallMemory& memory = *memory_[i];
    const bool immediate = call.scalar == Scalar::kImmediate;
    const auto residence = immediate ? tuttiScalarHostImmediate : tuttiScalarDevice;
    if (immediate) memory.set_scalar();
    tuttiRedOp_t op = tuttiSum;
    const tuttiResult_t made =
        library_.create_scaled_sum(&op, memory.scalar(), call.problem.type, residence, comm_);
    if (!ok(made, "tuttiRedOpCreatePreMulSum", comm_)) return false;
    // An immediate one has been read; one on the device is read when the call runs.
    immediate ? memory.forget_scalar() : memory.set_scalar();
    return issue(batch, i, op, stream) &&
           ok(tuttiRedOpDestroy(op, comm_), "tuttiRedOpDestroy", comm_);
  }

  bool issue(const Batch& batch, size_t i, tuttiRedOp_t op, tuttiStream_t stream) {
    const CallMemory& m = *memory_[i];
    reference::Problem p = batch.calls[i].problem;
    p.op = op;
    const CallValue value(p, member_.rank(), m.send(), m.recv());
    if (batch.handles) return submit(value.call(), batch, i, stream);
    return ok(random_calls::issue(p, m.send(), m.recv(), comm_, stream),
              reference::name_of(p.collective), comm_);
  }

  bool submit(const tuttiCall_t& call, const Batch& batch, size_t i, tuttiStream_t stream) {
    const tuttiOptions_t options = options_of(batch.calls[i]);
    tuttiRequest_t request = nullptr;
    const tuttiResult_t done = library_.submit(&call, comm_, stream, &options, &request);
    if (!ok(done, "tuttiSubmit", comm_)) return false;
    requests_[i].push_back(request);
    return true;
  }

  bool issue_transfers(const Batch& batch, size_t i, tuttiStream_t stream) {
    if (!ok(tuttiGroupStart(), "tuttiGroupStart", nullptr)) return false;
    for (const TransferMemory& part : memory_[i]->transfers()) {
      const Transfer& t = batch.calls[i].transfers[part.ordinal];
      tuttiCall_t call = TUTTI_CALL_INITIALIZER;
      call.collective = part.is_send ? tuttiCollSend : tuttiCollRecv;
      call.send = call.recv = part.block.data();
      call.count = t.count;
      call.type = t.type;
      call.root = part.is_send ? t.target : t.source;
      if (batch.handles) {
        if (!submit(call, batch, i, stream)) return false;
        continue;
      }
      const tuttiResult_t done =
          part.is_send ? tuttiSend(call.send, t.count, t.type, t.target, comm_, stream)
                       : tuttiRecv(call.recv, t.count, t.type, t.source, comm_, stream);
      if (!ok(done, part.is_send ? "tuttiSend" : "tuttiRecv", comm_)) return false;
    }
    return ok(tuttiGroupEnd(), "tuttiGroupEnd", nullptr);
  }

  const Job& job_;
  Member& member_;
  const Verdict verdict_{member_};
  Library library_;
  OneSided one_sided_{job_, member_.rank(), library_, verdict_};
  tuttiComm_t comm_ = nullptr;
  tuttiStream_t streams_[2] = {tuttiBlocking(), tuttiBlocking()};
  std::vector<void*> registered_, handles_;
  Regions regions_;
  std::vector<std::unique_ptr<CallMemory>> memory_;  // of the batch; null: looked at
  std::vector<std::vector<tuttiRequest_t>> requests_;  // of each call of the batch
  int completed_ = 0;
  std::string algorithm_;
  bool deterministic_ = false;
};

}  // namespace

testing_support::TeamResult run_job(const Job& job, const Fault& fault) {
  return testing_support::run_team(
      job.shape, [&](Member& member) { Rank(job, member, fault).run(); },
      [&](uint64_t step) { return describe_step(job, step); }, kJobLimitNs);
}

}  // namespace tutti::random_calls
