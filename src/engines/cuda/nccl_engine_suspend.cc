// The parts of NcclEngine about the device memory of NCCL's communicator.
#include "src/base/clock.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/nccl_engine.h"

namespace tutti::engines::cuda {

exec::VendorMemory NcclEngine::memory() const {
  if (!settled_ || inner_ == nullptr || !refusal_.ok()) return {};
  exec::VendorMemory found = inner_->memory();
  if (!suspends_) found.given_back = 0;
  return found;
}

// A communicator that is still being made would take its memory behind a suspend.
Status NcclEngine::suspend(uint64_t patience_ns) {
  if (Status failed = settle(); !failed.ok()) return failed;
  return gives_back() ? switch_memory(true, patience_ns) : Status();
}

// NCCL's communicator is of no use behind an attempt that failed, so it is not asked for what there
// is no room for.
Status NcclEngine::find_room() const {
  if (!gives_back()) return {};
  const uint64_t wanted = memory().given_back;
  size_t unused = 0, all = 0;
  Status mine = cuda_.check(cuda_.call.cuMemGetInfo(&unused, &all), "cuMemGetInfo");
  if (mine.ok() && unused < wanted) {
    mine = Status::system_error("NCCL needs " + std::to_string(wanted) +
                                " bytes of device memory again, and " + std::to_string(unused) +
                                " are free: free some on all ranks' devices, and resume again");
  }
  const auto texts = options_.exchange(outcome_text(mine));
  if (!texts.ok()) return texts.status();
  const Status problem = first_problem(texts.value(), options_);
  return problem.ok() ? Status() : Status::system_error(std::string(problem.message()));
}

Status NcclEngine::resume(uint64_t patience_ns) {
  return gives_back() ? switch_memory(false, patience_ns) : Status();
}

// A rank that cannot fails the communicator at once: its peers wait for it in NCCL.
Status NcclEngine::switch_memory(bool back, uint64_t patience_ns) {
  const uint64_t until_ns = deadline_after(patience_ns);
  const std::string what = back ? "give NCCL's device memory back" : "take NCCL's memory again";
  Status mine = inner_->switch_memory(back, [&] {
    Status failed = options_.failure();
    if (!failed.ok() || monotonic_ns() < until_ns) return failed;
    return Status::timeout("it waits for the other ranks in NCCL for too long");
  });
  if (mine.ok()) return options_.exchange(outcome_text(mine)).status();
  if (Status known = options_.failure(); !known.ok()) return known;
  const Status failed(mine.code(), options_.name_of(rank_) + " cannot " + what + ": " +
                                       std::string(mine.message()) +
                                       "; the communicator has failed with it: make a new one");
  const bool is_own = mine.code() != Code::kTimeout;
  options_.fail(failed, {is_own ? rank_ : -1, -1});
  return failed;
}

}  // namespace tutti::engines::cuda
