#include "tests/random/rank.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/random/issue.h"
#include "tests/random/memory.h"
#include "tests/support/dice.h"

namespace tutti::random_calls {
namespace {

using reference::Collective;
using testing_support::Member;

constexpr uint64_t kJobLimitNs = 60'000'000'000;

class Rank {
 public:
  Rank(const Job& job, Member& member) : job_(job), member_(member) {}
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
  bool ok(tuttiResult_t result, const char* what, tuttiComm_t comm) {
    if (result == tuttiSuccess) return true;
    member_.fail(std::string(what) + ": " + tuttiGetErrorString(result) + ": " +
                 tuttiGetLastError(comm));
    return false;
  }

  bool wrong(const std::string& message) {
    member_.fail(message);
    return false;
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
    if (ranks != member_.ranks() || rank != member_.rank()) return wrong("another rank or count");
    for (tuttiStream_t& stream : streams_) {
      if (!ok(tuttiStreamCreate(&stream), "tuttiStreamCreate", nullptr)) return false;
    }
    return !job_.uses_registered ||
           (take_registered(regions_.send) && take_registered(regions_.recv));
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
    for (const Call& call : batch.calls) {
      memory_.push_back(std::make_unique<CallMemory>(call, member_.rank(), &regions_));
    }
    const bool grouped = batch.way == Way::kGroup || batch.way == Way::kHostGroup;
    if (grouped && !set_options(batch.calls[0])) return false;
    if (grouped && !ok(tuttiGroupStart(), "tuttiGroupStart", nullptr)) return false;
    for (size_t i = 0; i < batch.calls.size(); ++i) {
      member_.at(step_of(index, i));
      be_late(batch.calls[i]);
      if (!issue(batch, i)) return false;
      if (batch.way == Way::kBlocking && !check(i)) return false;
    }
    member_.at(step_of(index, batch.calls.size()));
    if (grouped && !ok(tuttiGroupEnd(), "tuttiGroupEnd", nullptr)) return false;
    return batch.way == Way::kBlocking || (synchronize(batch.way) && check_all());
  }

  bool synchronize(Way way) {
    if (way == Way::kGroup) return true;
    for (tuttiStream_t stream : streams_) {
      if (!ok(tuttiStreamSynchronize(stream), "tuttiStreamSynchronize", nullptr)) return false;
    }
    return true;
  }

  bool check_all() {
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!check(i)) return false;
    }
    return true;
  }

  bool check(size_t i) {
    const std::string message = memory_[i]->check();
    return message.empty() || wrong("call " + std::to_string(i) + ": " + message);
  }

  // Ranks do not come together in real life; now and then one comes very late.
  void be_late(const Call& call) {
    const auto rank = static_cast<uint64_t>(member_.rank());
    const uint64_t chance = testing_support::mix(call.seed, rank + 1000);
    if (chance % 8 == 0) testing_support::sleep_ns((chance >> 8) % 300'000);
    if (chance % 200 == 1) testing_support::sleep_ns(5'000'000);
  }

  bool set_options(const Call& call) {
    if (algorithm_ == call.algorithm && deterministic_ == call.deterministic) return true;
    algorithm_ = call.algorithm;
    deterministic_ = call.deterministic;
    tuttiOptions_t options = TUTTI_OPTIONS_INITIALIZER;
    options.algorithm = algorithm_.empty() ? nullptr : algorithm_.c_str();
    options.deterministic = deterministic_ ? 1 : 0;
    return ok(tuttiCommSetOptions(comm_, &options), "tuttiCommSetOptions", comm_);
  }

  tuttiStream_t stream_of(Way way, size_t i) const {
    if (way == Way::kHost || way == Way::kHostGroup) return streams_[0];
    return way == Way::kTwoHost ? streams_[i % 2] : tuttiBlocking();
  }

  bool issue(const Batch& batch, size_t i) {
    const Call& call = batch.calls[i];
    const bool grouped = batch.way == Way::kGroup || batch.way == Way::kHostGroup;
    if (!grouped && !set_options(call)) return false;
    const tuttiStream_t stream = stream_of(batch.way, i);
    if (call.is_pairs) return issue_transfers(call, *memory_[i], stream);
    const reference::Problem& p = call.problem;
    const CallMemory& m = *memory_[i];
    return ok(random_calls::issue(p, m.send(), m.recv(), comm_, stream),
              reference::name_of(p.collective), comm_);
  }

  bool issue_transfers(const Call& call, const CallMemory& memory, tuttiStream_t stream) {
    if (!ok(tuttiGroupStart(), "tuttiGroupStart", nullptr)) return false;
    for (const TransferMemory& part : memory.transfers()) {
      const Transfer& t = call.transfers[part.ordinal];
      std::byte* data = part.block.data();
      const tuttiResult_t done =
          part.is_send ? tuttiSend(data, t.count, t.type, t.target, comm_, stream)
                       : tuttiRecv(data, t.count, t.type, t.source, comm_, stream);
      if (!ok(done, part.is_send ? "tuttiSend" : "tuttiRecv", comm_)) return false;
    }
    return ok(tuttiGroupEnd(), "tuttiGroupEnd", nullptr);
  }

  const Job& job_;
  Member& member_;
  tuttiComm_t comm_ = nullptr;
  tuttiStream_t streams_[2] = {tuttiBlocking(), tuttiBlocking()};
  std::vector<void*> registered_, handles_;
  Regions regions_;
  std::vector<std::unique_ptr<CallMemory>> memory_;
  std::string algorithm_;
  bool deterministic_ = false;
};

}  // namespace

void run_rank(const Job& job, Member& member) { Rank(job, member).run(); }

testing_support::TeamResult run_job(const Job& job) {
  return testing_support::run_team(
      job.shape, [&](Member& member) { run_rank(job, member); },
      [&](uint64_t step) { return describe_step(job, step); }, kJobLimitNs);
}

}  // namespace tutti::random_calls
