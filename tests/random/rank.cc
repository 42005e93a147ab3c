#include "tests/random/rank.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/random/device_mirror.h"
#include "tests/random/issue.h"
#include "tests/random/memory.h"
#include "tests/random/seats.h"
#include "tests/random/verdict.h"
#include "tests/support/dice.h"

namespace tutti::random_calls {
namespace {

using reference::Collective;
using testing_support::Member;

constexpr uint64_t kJobLimitNs = 180'000'000'000;

class Rank {
 public:
  Rank(const Job& job, Member& member, const Fault& fault) : job_(job), member_(member) {
    if (fault) fault(library_, member.rank());
  }
  ~Rank() {
    seats_.abandon();
    for (tuttiStream_t stream : streams_) tuttiStreamDestroy(stream);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  bool run() {
    member_.at(0);
    if (job_.devices && !open_device()) return false;
    for (tuttiStream_t& stream : streams_) {
      if (!ok(tuttiStreamCreate(&stream), "tuttiStreamCreate", nullptr)) return false;
    }
    if (!seats_.open()) return false;
    for (size_t i = 0; i < job_.batches.size(); ++i) {
      if (!make_changes(i) || !renew(i) || !run_batch(i)) return false;
    }
    member_.at(step_of(job_.batches.size(), 0));
    return seats_.close();
  }

 private:
  bool open_device() {
    std::string why;
    device_ = DeviceMirror::open(member_.rank(), why);
    if (device_ == nullptr) return verdict_.wrong("no device: " + why);
    if (job_.has_regions) seats_.bring(device_->registered(), DeviceMirror::kBytes);
    return true;
  }

  bool ok(tuttiResult_t result, const char* what, tuttiComm_t comm) const {
    return verdict_.ok(result, what, comm);
  }

  bool make_changes(size_t index) {
    member_.at(step_of_changes(index));
    return std::ranges::all_of(job_.batches[index].changes,
                               [&](const Change& change) { return seats_.apply(change); });
  }

  bool renew(size_t index) { return !job_.renews || index % 3 != 2 || seats_.renew(); }

  bool run_batch(size_t index) {
    const Batch& batch = job_.batches[index];
    prepare(batch);
    const bool shares_options = batch.grouped() && !batch.handles;
    for (size_t i = 0; shares_options && i < batch.calls.size(); ++i) {
      if (seat_of_[i] != nullptr && !set_options(*seat_of_[i], batch.calls[i])) return false;
    }
    if (batch.grouped() && !ok(library_.group_start(), "tuttiGroupStart", nullptr)) return false;
    for (const size_t i : issue_order(batch, member_.rank())) {
      if (seat_of_[i] == nullptr) continue;
      member_.at(step_of(index, i));
      be_late(batch.calls[i]);
      if (!issue(batch, i)) return false;
      if (batch.way == Way::kBlocking && !complete(i)) return false;
    }
    member_.at(step_of(index, batch.calls.size()));
    return complete_all(batch);
  }

  // Prepares the memory that this rank needs for its part of the calls.
  void prepare(const Batch& batch) {
    Regions& regions = seats_.regions();
    regions.send.reset();
    regions.recv.reset();
    if (device_ != nullptr) device_->reset();
    memory_.clear();
    seat_of_.clear();
    requests_.assign(batch.calls.size(), {});
    looked_at_.assign(batch.calls.size(), false);
    for (size_t i = 0; i < batch.calls.size(); ++i) {
      const Call& call = batch.calls[i];
      Seat* seat = seats_.find(call.communicator);
      seat_of_.push_back(seat);
      memory_.push_back(seat == nullptr ? nullptr
                                        : std::make_unique<CallMemory>(call, seat->rank, &regions));
      if (!call.on_device || seat == nullptr) continue;
      if (call.allocated && job_.of(call).registered) {
        memory_.back()->move_to_registered(*device_, i);
      } else {
        memory_.back()->move_to(*device_);
      }
    }
  }

  // One-sided data arrives beside all calls of the batch.
  bool complete_all(const Batch& batch) {
    const size_t calls = batch.calls.size();
    for (size_t i = 0; i < calls; ++i) {
      const Call& call = batch.calls[i];
      if (seat_of_[i] == nullptr || call.kind != Kind::kOneSided) continue;
      if (!seat_of_[i]->one_sided->await(call, stream_for(batch.way, i))) return false;
    }
    if (batch.grouped() && !ok(library_.group_end(), "tuttiGroupEnd", nullptr)) return false;
    // By handles in another order than that of the calls: each says that its own is complete.
    for (size_t i = 0; batch.handles && i < calls; ++i) {
      if (!complete((batch.calls[0].seed + calls - i) % calls)) return false;
    }
    if (!synchronize(batch.way)) return false;
    for (size_t i = 0; i < calls; ++i) {
      if (!complete(i)) return false;
    }
    return std::ranges::all_of(
        seats_.all(), [&](const auto& entry) { return entry.second.one_sided->finish(batch); });
  }

  bool synchronize(Way way) {
    for (size_t i = 0; device_ != nullptr && i < 2; ++i) device_->synchronize(i);
    if (way == Way::kBlocking || way == Way::kGroup) return true;
    for (tuttiStream_t stream : streams_) {
      if (!ok(tuttiStreamSynchronize(stream), "tuttiStreamSynchronize", nullptr)) return false;
    }
    return true;
  }

  // Looks at a call's memory, once: the call is complete, or its handles say when it is, either by
  // a test, which the wait that ends them follows, or by the wait.
  bool complete(size_t i) {
    if (memory_[i] == nullptr || looked_at_[i]) return true;
    looked_at_[i] = true;
    const std::vector<tuttiRequest_t> requests = std::exchange(requests_[i], {});
    const bool tests = ++completed_ % 2 == 0;
    const auto ends = [&](tuttiRequest_t r) {
      return ok(library_.request_wait(r), "tuttiRequestWait", nullptr);
    };
    const auto is_done = [&](tuttiRequest_t r) { return tests ? test(r) : ends(r); };
    if (!std::ranges::all_of(requests, is_done)) return false;
    if (device_ != nullptr) {
      if (requests.empty()) device_->synchronize(0);
      memory_[i]->move_back(*device_);
    }
    if (const std::string message = memory_[i]->check(); !message.empty()) {
      return verdict_.wrong("call " + std::to_string(i) + ": " + message);
    }
    return !tests || std::ranges::all_of(requests, ends);
  }

  bool test(tuttiRequest_t request) {
    for (int done = 0;;) {
      const tuttiResult_t result = library_.request_test(request, &done);
      if (!ok(result, "tuttiRequestTest", nullptr)) return false;
      if (done != 0) return true;
      testing_support::sleep_ns(20'000);
    }
  }

  // Ranks do not come together in real life; now and then one comes very late.
  void be_late(const Call& call) {
    const auto rank = static_cast<uint64_t>(member_.rank());
    const uint64_t chance = testing_support::mix(call.seed, rank + 1000);
    if (chance % 8 == 0) testing_support::sleep_ns((chance >> 8) % 300'000);
    if (chance % 200 == 1) testing_support::sleep_ns(5'000'000);
  }

  tuttiOptions_t options_of(const CallOptions& wanted) const {
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = wanted.algorithm.empty() ? nullptr : wanted.algorithm.c_str();
    options.deterministic = wanted.deterministic ? 1 : 0;
    options.priority = wanted.priority;
    options.timeout_ns = wanted.deadline ? job_.deadline_ns : 0;
    return options;
  }

  bool set_options(Seat& seat, const Call& call) {
    if (call.kind == Kind::kOneSided || seat.options == call.options) return true;
    seat.options = call.options;
    const tuttiOptions_t options = options_of(call.options);
    return ok(library_.set_options(seat.comm, &options), "tuttiCommSetOptions", seat.comm);
  }

  tuttiStream_t stream_for(const Batch& batch, size_t i) const {
    if (!batch.calls[i].on_device) return stream_for(batch.way, i);
    return device_->stream(batch.way == Way::kTwoHost ? stream_of(i) : 0);
  }
  tuttiStream_t stream_for(Way way, size_t i) const {
    if (way == Way::kHost || way == Way::kHostGroup) return streams_[0];
    return way == Way::kTwoHost ? streams_[stream_of(i)] : tuttiBlocking();
  }

  bool issue(const Batch& batch, size_t i) {
    const Call& call = batch.calls[i];
    Seat& seat = *seat_of_[i];
    const tuttiStream_t stream = stream_for(batch, i);
    if (call.kind == Kind::kOneSided) {
      return seat.one_sided->issue(call, batch.way == Way::kBlocking, stream);
    }
    if (!batch.grouped() && !batch.handles && !set_options(seat, call)) return false;
    if (call.kind == Kind::kPairs) return issue_transfers(batch, i, stream);
    if (call.scalar == Scalar::kNone) return issue(batch, i, call.problem.op, stream);
    return issue_scaled(batch, i, stream);
  }

  bool issue_scaled(const Batch& batch, size_t i, tuttiStream_t stream) {
    const Call& call = batch.calls[i];
    CallMemory& memory = *memory_[i];
    tuttiComm_t comm = seat_of_[i]->comm;
    const bool immediate = call.scalar == Scalar::kImmediate;
    const auto residence = immediate ? tuttiScalarHostImmediate : tuttiScalarDevice;
    if (immediate) memory.set_scalar();
    tuttiRedOp_t op = tuttiSum;
    const tuttiResult_t made =
        library_.create_scaled_sum(&op, memory.scalar(), call.problem.type, residence, comm);
    if (!ok(made, "tuttiRedOpCreatePreMulSum", comm)) return false;
    // An immediate one has been read; one on the device is read when the call runs.
    immediate ? memory.forget_scalar() : memory.set_scalar();
    return issue(batch, i, op, stream) &&
           ok(tuttiRedOpDestroy(op, comm), "tuttiRedOpDestroy", comm);
  }

  bool issue(const Batch& batch, size_t i, tuttiRedOp_t op, tuttiStream_t stream) {
    const CallMemory& m = *memory_[i];
    const Seat& seat = *seat_of_[i];
    reference::Problem p = batch.calls[i].problem;
    p.op = op;
    const CallValue value(p, seat.rank, m.send(), m.recv());
    if (batch.handles) return submit(value.call(), batch, i, stream);
    return ok(random_calls::issue(p, m.send(), m.recv(), seat.comm, stream),
              reference::name_of(p.collective), seat.comm);
  }

  bool submit(const tuttiCall_t& call, const Batch& batch, size_t i, tuttiStream_t stream) {
    const tuttiOptions_t options = options_of(batch.calls[i].options);
    tuttiComm_t comm = seat_of_[i]->comm;
    tuttiRequest_t request = nullptr;
    const tuttiResult_t done = library_.submit(&call, comm, stream, &options, &request);
    if (!ok(done, "tuttiSubmit", comm)) return false;
    requests_[i].push_back(request);
    return true;
  }

  bool issue_transfers(const Batch& batch, size_t i, tuttiStream_t stream) {
    tuttiComm_t comm = seat_of_[i]->comm;
    if (!ok(tuttiGroupStart(), "tuttiGroupStart", nullptr)) return false;
    for (const TransferMemory& part : memory_[i]->transfers()) {
      const Transfer& t = batch.calls[i].transfers[part.ordinal];
      tuttiCall_t call = TUTTI_CALL_INITIALIZER;
      call.collective = part.is_send ? tuttiCollSend : tuttiCollRecv;
      call.send = call.recv = memory_[i]->place_of(part);
      call.count = t.count;
      call.type = t.type;
      call.root = part.is_send ? t.target : t.source;
      if (batch.handles) {
        if (!submit(call, batch, i, stream)) return false;
        continue;
      }
      const tuttiResult_t done =
          part.is_send ? tuttiSend(call.send, t.count, t.type, t.target, comm, stream)
                       : tuttiRecv(call.recv, t.count, t.type, t.source, comm, stream);
      if (!ok(done, part.is_send ? "tuttiSend" : "tuttiRecv", comm)) return false;
    }
    return ok(tuttiGroupEnd(), "tuttiGroupEnd", nullptr);
  }

  const Job& job_;
  Member& member_;
  const Verdict verdict_{member_};
  Library library_;
  tuttiStream_t streams_[2] = {tuttiBlocking(), tuttiBlocking()};
  std::unique_ptr<DeviceMirror> device_;  // null: calls are on host memory
  Seats seats_{job_, member_, library_, verdict_};
  // Of each call of the batch:
  std::vector<Seat*> seat_of_;                       // null: the rank has no part in it
  std::vector<std::unique_ptr<CallMemory>> memory_;  // kept for a library that still uses it
  std::vector<bool> looked_at_;
  std::vector<std::vector<tuttiRequest_t>> requests_;
  int completed_ = 0;
};

}  // namespace

testing_support::TeamResult run_job(const Job& job, const Fault& fault) {
  return testing_support::run_team(
      job.shape, [&](Member& member) { Rank(job, member, fault).run(); },
      [&](uint64_t step) { return describe_step(job, step); }, kJobLimitNs);
}

}  // namespace tutti::random_calls
