#include "plugins/nccl/group.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/nccl/comm.h"

namespace tutti::nccl {
namespace {

using Work = std::function<ncclResult_t()>;

struct Group {
  int depth = 0;
  ncclResult_t failure = ncclSuccess;
  std::string message;  // of the failure
  std::vector<Work> deferred;
  std::vector<std::function<void()>> at_end;
};

Group& group() {
  // tidy: allow mutable (NCCL's groups belong to a thread)
  thread_local Group group;
  return group;
}

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

/// The work is collective over ranks that may all be this thread's: the last piece is done here,
/// the others beside it, all or none.
ncclResult_t run_together(const std::vector<Work>& work) {
  if (work.empty()) return ncclSuccess;
  std::vector<ncclResult_t> results(work.size(), ncclSuccess);
  std::vector<std::thread> threads;
  Start start;
  std::string refusal;
  try {
    while (threads.size() + 1 < work.size()) {
      threads.emplace_back([&, i = threads.size()] {
        if (start.await()) results[i] = work[i]();
      });
    }
  } catch (const std::system_error& error) {
    refusal = error.what();
  }
  start.decide(refusal.empty());
  if (refusal.empty()) results.back() = work.back()();
  for (std::thread& thread : threads) thread.join();
  if (!refusal.empty()) {
    return fail(ncclSystemError, "ncclGroupEnd: no thread for each of the " +
                                     std::to_string(work.size()) +
                                     " windows that this thread registers in the group (" +
                                     refusal + "); none is registered");
  }
  for (const ncclResult_t result : results) {
    if (result != ncclSuccess) return result;
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
  Group& open = group();
  const bool failed = result != ncclSuccess && result != ncclInProgress;
  if (failed && open.depth > 0 && open.failure == ncclSuccess) {
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

ncclResult_t run_or_defer(Work work) {
  Group& open = group();
  if (open.depth == 0) return work();
  open.deferred.push_back(std::move(work));
  return ncclSuccess;
}

void at_group_end(std::function<void()> work) { group().at_end.push_back(std::move(work)); }

}  // namespace tutti::nccl
