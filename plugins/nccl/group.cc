#include "plugins/nccl/group.h"

#include <string>
#include <utility>
#include <vector>

#include "plugins/nccl/caught.h"
#include "plugins/nccl/errors.h"
#include "plugins/nccl/per_thread.h"
#include "tutti/tutti.h"

namespace tutti::nccl {
namespace {

struct Group {
  int depth = 0;
  ncclResult_t failure = ncclSuccess;
  std::string message;  // of the failure
  std::vector<WindowCall> windows;
  std::vector<std::function<void()>> at_end;
};

Group& group() { return PerThread<Group>::get(); }

ncclResult_t run(const Group& ended) {
  if (ended.failure != ncclSuccess) {
    tuttiGroupDiscard();
    return fail(ended.failure, ended.message);
  }
  const ncclResult_t result = translate(tuttiGroupEnd());
  if (result != ncclSuccess && result != ncclInProgress) return result;
  const ncclResult_t behind = add_windows(ended.windows);
  return behind != ncclSuccess ? behind : result;
}

}  // namespace

bool in_group() { return group().depth > 0; }
bool is_outermost() { return group().depth == 1; }

ncclResult_t part_of_group(ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress) return result;
  Group& open = group();
  if (open.depth > 0 && open.failure == ncclSuccess) {
    open.failure = result;
    open.message = last_message();  // may find no memory: the failure is kept all the same
  }
  return result;
}

ncclResult_t start_group() {
  Group& open = group();  // what the group refuses must find it
  const ncclResult_t result = translate(tuttiGroupStart());
  if (result == ncclSuccess) ++open.depth;
  return result;
}

ncclResult_t simulate_group(uint64_t* nanoseconds) {
  Group& open = group();
  if (open.depth > 1) {
    --open.depth;
    return translate(tuttiGroupSimulateEnd(nanoseconds));
  }
  Group ended = std::exchange(open, {});
  if (ended.failure == ncclSuccess && !ended.windows.empty()) {
    ended.failure = caught([&] {
      const ncclResult_t refused = misuse("ncclGroupSimulateEnd", "the group registers windows");
      ended.message = last_message();
      return refused;
    });
  }
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
  const ncclResult_t result = caught([&] { return run(ended); });
  for (const auto& work : ended.at_end) work();
  return result;
}

ncclResult_t add_or_defer(const WindowCall& call) {
  Group& open = group();
  if (open.depth == 0) return add_windows({call});
  open.windows.push_back(call);
  return ncclSuccess;
}

void at_group_end(std::function<void()> work) { group().at_end.push_back(std::move(work)); }

}  // namespace tutti::nccl
