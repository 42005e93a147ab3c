#include "plugins/nccl/group.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/nccl/comm.h"
#include "plugins/nccl/per_thread.h"

namespace tutti::nccl {
namespace {

using Work = std::function<ncclResult_t()>;

/// What one communicator does behind the group, in the order of the calls.
struct Deferred {
  ncclComm_t comm;
  std::vector<Work> work;
};

struct Outcome {
  ncclResult_t result = ncclSuccess;
  std::string message;  // of a failure
};

struct Group {
  int depth = 0;
  ncclResult_t failure = ncclSuccess;
  std::string message;  // of the failure
  std::vector<Deferred> deferred;
  std::vector<std::function<void()>> at_end;
};

Group& group() { return PerThread<Group>::get(); }

/// Threads that wait until it is known whether all of them exist.
class Start {
 public:
  void decide(bool go) {
    {
      const std::lock_guard lock(mutex_);
      decision_ = go ? Decision::kGo : Decision::kStay;
    }
    decided_.notify_all();
  }
  bool await() {
    std::unique_lock lock(mutex_);
    decided_.wait(lock, [this] { return decision_ != Decision::kNone; });
    return decision_ == Decision::kGo;
  }

 private:
  enum class Decision { kNone, kGo, kStay };
  std::mutex mutex_;
  std::condition_variable decided_;
  Decision decision_ = Decision::kNone;
};

/// All of it, whatever fails: the other ranks take part in each piece. The first failure.
Outcome run_in_order(const std::vector<Work>& work) {
  Outcome first;
  for (const Work& piece : work) {
    const ncclResult_t result = piece();
    if (result == ncclSuccess || first.result != ncclSuccess) continue;
    first = {result, last_message()};
  }
  return first;
}

/// The work is collective over ranks that may all be this thread's, and a communicator is used by
/// one thread at a time: the last communicator's is done here, that of the others beside it, all or
/// none.
ncclResult_t run_together(const std::vector<Deferred>& deferred) {
  if (deferred.empty()) return ncclSuccess;
  std::vector<Outcome> outcomes(deferred.size());
  std::vector<std::thread> threads;
  Start start;
  std::string refusal;
  try {
    while (threads.size() + 1 < deferred.size()) {
      threads.emplace_back([&, i = threads.size()] {
        if (start.await()) outcomes[i] = run_in_order(deferred[i].work);
      });
    }
  } catch (const std::system_error& error) {
    refusal = error.what();
  }
  start.decide(refusal.empty());
  if (refusal.empty()) outcomes.back() = run_in_order(deferred.back().work);
  for (std::thread& thread : threads) thread.join();
  if (!refusal.empty()) {
    return fail(ncclSystemError, "ncclGroupEnd: no thread for each of the " +
                                     std::to_string(deferred.size()) +
                                     " communicators whose windows this thread registers in the "
                                     "group (" +
                                     refusal + "); none is registered");
  }
  for (const Outcome& outcome : outcomes) {
    if (outcome.result != ncclSuccess) return fail(outcome.result, outcome.message);
  }
  return ncclSuccess;
}

ncclResult_t run(const Group& ended) {
  if (ended.failure != ncclSuccess) {
    tuttiGroupDiscard();
    return fail(ended.failure, ended.message);
  }
  const ncclResult_t result = translate(tuttiGroupEnd());
  if (result != ncclSuccess && result != ncclInProgress) return result;
  const ncclResult_t behind = run_together(ended.deferred);
  return behind != ncclSuccess ? behind : result;
}

}  // namespace

bool in_group() { return group().depth > 0; }

ncclResult_t part_of_group(ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress) return result;
  Group& open = group();
  if (open.depth > 0 && open.failure == ncclSuccess) {
    open.failure = result;
    open.message = last_message();
  }
  return result;
}

ncclResult_t start_group() {
  const ncclResult_t result = translate(tuttiGroupStart());
  if (result == ncclSuccess) ++group().depth;
  return result;
}

ncclResult_t simulate_group(uint64_t* nanoseconds) {
  Group& open = group();
  if (open.depth > 1) {
    --open.depth;
    return translate(tuttiGroupSimulateEnd(nanoseconds));
  }
  const Group ended = std::exchange(open, {});
  if (ended.failure != ncclSuccess) tuttiGroupDiscard();
  const ncclResult_t result = ended.failure != ncclSuccess
                                  ? fail(ended.failure, ended.message)
                                  : translate(tuttiGroupSimulateEnd(nanoseconds));
  for (const auto& work : ended.at_end) work();
  return result;
}

void discard_group() {
  const Group dropped = std::exchange(group(), {});
  tuttiGroupDiscard();
  for (const auto& work : dropped.at_end) work();
}

ncclResult_t end_group() {
  Group& open = group();
  if (open.depth == 0) return misuse("ncclGroupEnd", "there is no ncclGroupStart before it");
  if (open.depth > 1) {
    --open.depth;
    return translate(tuttiGroupEnd());
  }
  const Group ended = std::exchange(open, {});
  const ncclResult_t result = run(ended);
  for (const auto& work : ended.at_end) work();
  return result;
}

ncclResult_t run_or_defer(ncclComm_t comm, Work work) {
  Group& open = group();
  if (open.depth == 0) return work();
  std::vector<Deferred>& deferred = open.deferred;
  auto own = std::find_if(deferred.begin(), deferred.end(),
                          [comm](const Deferred& one) { return one.comm == comm; });
  if (own == deferred.end()) own = deferred.insert(own, {comm, {}});
  own->work.push_back(std::move(work));
  return ncclSuccess;
}

void at_group_end(std::function<void()> work) { group().at_end.push_back(std::move(work)); }

}  // namespace tutti::nccl
