#include "plugins/nccl/windows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "plugins/nccl/comm.h"
#include "plugins/nccl/device_memory.h"

namespace tutti::nccl {
namespace {

/// A window on its way.
struct Plan {
  static constexpr int64_t kUnknown = -2, kOfGpu = -1, kApart = 0, kMappable = 1;

  WindowCall call;
  // The kind of its memory, its size both ways, and whether collectives may use it where it is a
  // device's: of this rank, of all, and the least of all.
  static constexpr size_t kFacts = 4;
  int64_t mine[kFacts] = {};
  std::vector<int64_t> everybodys;
  int64_t least[kFacts] = {kUnknown, 0, 0, 0};
  std::unique_ptr<ncclWindow_vidmem> made = std::make_unique<ncclWindow_vidmem>();
  bool brings_signals = false;  // every rank makes them with its first window
  tuttiWindow_t signals = nullptr;
  ncclResult_t failure = ncclSuccess;
  std::string message;  // of the failure

  explicit Plan(const WindowCall& asked) : call(asked) {
    const auto size = static_cast<int64_t>(call.bytes);
    mine[0] = kind();
    mine[1] = size;
    mine[2] = static_cast<int64_t>(0 - call.bytes);
    mine[3] = mine[0] == kOfGpu && is_symmetric() ? 1 : 0;
    made->memory = call.memory;
  }
  bool is_symmetric() const { return (call.flags & NCCL_WIN_COLL_SYMMETRIC) != 0; }
  int64_t kind() const {
    if (call.bytes > 0 && is_device_memory(call.memory)) return kOfGpu;
    return is_symmetric() && can_be_shared(call.memory, call.bytes) ? kMappable : kApart;
  }
  bool is_agreed() const { return least[0] != kUnknown; }
  bool is_shared() const {
    return (least[0] == kMappable || least[3] == 1) && least[1] == -least[2];
  }
  /// Some rank's memory is one that the host cannot read: a window for one-sided access may be
  /// had, and is one for collectives all the same where it cannot.
  bool is_of_gpu() const { return least[0] == kOfGpu; }
  bool is_complete() const {
    return (made->window != nullptr || is_of_gpu()) &&
           (made->registration != nullptr || !is_shared()) &&
           (signals != nullptr || !brings_signals);
  }
  /// The last error of the process says why.
  void fail(ncclResult_t result) {
    failure = result;
    message = last_message();
  }
};

/// At most one window of a communicator.
using Round = std::vector<Plan*>;

/// On the wire a group is what its calls are without one: ranks may group theirs differently.
std::vector<Round> rounds_of(std::vector<Plan>& plans) {
  std::vector<Round> rounds;
  std::map<ncclComm_t, size_t> before;
  for (Plan& plan : plans) {
    const size_t round = before[plan.call.comm]++;
    if (round == rounds.size()) rounds.emplace_back();
    rounds[round].push_back(&plan);
  }
  return rounds;
}

/// One of tutti.h that no exception leaves open: the thread's later calls would wait for its end.
class OpenGroup {
 public:
  OpenGroup() { (void)tuttiGroupStart(); }
  ~OpenGroup() {
    if (is_open_) (void)tuttiGroupDiscard();
  }
  OpenGroup(const OpenGroup&) = delete;
  OpenGroup& operator=(const OpenGroup&) = delete;

  tuttiResult_t end() {
    is_open_ = false;
    return tuttiGroupEnd();
  }

 private:
  bool is_open_ = true;
};

/// Runs all that `put` adds for each plan as one group of tutti.h: for each rank of this thread its
/// part. tutti.h refuses a whole group, but the peers of other communicators wait for their part:
/// so it is made again without the plan that was refused.
template <class Put>
ncclResult_t together(const Round& round, Put put) {
  for (;;) {
    OpenGroup group;
    const auto is_refused = [&put](Plan* plan) {
      if (plan->failure != ncclSuccess) return false;
      const ncclResult_t result = translate(put(*plan));
      if (result != ncclSuccess) plan->fail(result);
      return result != ncclSuccess;
    };
    if (std::none_of(round.begin(), round.end(), is_refused)) return translate(group.end());
  }
}

/// An all_gather_v: what a program can call itself through nccl.h would pass for it on other ranks.
tuttiResult_t exchange_facts(Plan& plan) {
  const tuttiComm_t comm = plan.call.comm->tutti;
  int ranks = 0;
  if (const tuttiResult_t bad = tuttiCommCount(comm, &ranks); bad != tuttiSuccess) return bad;
  const std::vector<size_t> counts(static_cast<size_t>(ranks), Plan::kFacts);  // read at once
  plan.everybodys.assign(counts.size() * Plan::kFacts, Plan::kUnknown);
  return tuttiAllGatherV(plan.mine, Plan::kFacts, plan.everybodys.data(), counts.data(), nullptr,
                         tuttiInt64, comm, tuttiBlocking());
}

/// Unknown as long as any rank's kind is.
void find_least(Plan& plan) {
  for (size_t i = 0; i < plan.everybodys.size(); ++i) {
    int64_t& least = plan.least[i % Plan::kFacts];
    least = i < Plan::kFacts ? plan.everybodys[i] : std::min(least, plan.everybodys[i]);
  }
}

/// Whether they are windows at all, and collectives may use them: every rank's memory can be mapped
/// by the others, is of one size, and they say that they will. Each rank knows this of itself only.
void agree(const Round& round) {
  const ncclResult_t ended = together(round, exchange_facts);
  for (Plan* plan : round) {
    find_least(*plan);
    if (plan->failure == ncclSuccess && !plan->is_agreed()) plan->fail(ended);
  }
}

tuttiResult_t put_registrations(Plan& plan) {
  const WindowCall& call = plan.call;
  const tuttiComm_t comm = call.comm->tutti;
  tuttiResult_t result = tuttiSuccess;
  if (plan.is_shared()) {
    result = tuttiCommRegister(comm, call.memory, call.bytes, &plan.made->registration);
  }
  if (result == tuttiSuccess && !plan.is_of_gpu()) {
    tuttiWindow_t* const place = call.window == nullptr ? nullptr : &plan.made->window;
    result = tuttiCommWindowRegister(comm, call.memory, call.bytes, place, 0);
  }
  if (result == tuttiSuccess && plan.brings_signals) {
    result = tuttiCommWindowRegister(comm, nullptr, 0, &plan.signals, 0);
  }
  return result;
}

bool is_usable(const Plan& plan) {
  tuttiResult_t state = tuttiSuccess;
  return tuttiCommGetAsyncError(plan.call.comm->tutti, &state) == tuttiSuccess &&
         state == tuttiSuccess;
}

/// All ranks try, and all get it or none.
void add_windows_of_gpus(const Round& round) {
  const auto put = [](Plan& plan) {
    if (!plan.is_agreed() || !plan.is_of_gpu()) return tuttiSuccess;
    return tuttiCommWindowRegister(plan.call.comm->tutti, plan.call.memory, plan.call.bytes,
                                   &plan.made->window, 0);
  };
  const ncclResult_t ended = together(round, put);
  for (Plan* plan : round) {
    if (ended == ncclSuccess || plan->failure != ncclSuccess || !plan->is_of_gpu()) continue;
    if (plan->made->window != nullptr) continue;
    plan->made->why_none = last_message();
    if (!is_usable(*plan)) plan->fail(ended);
  }
}

void hand_out(Plan& plan) {
  ncclComm_t comm = plan.call.comm;
  std::unique_lock lock(comm->mutex);
  if (plan.brings_signals) comm->signals = plan.signals;
  if (plan.failure != ncclSuccess) {
    lock.unlock();
    (void)end_window(comm, *plan.made);
    return;
  }
  *plan.call.window = plan.made.get();
  comm->windows[plan.made.get()] = std::move(plan.made);
}

void add(const Round& round) {
  agree(round);
  for (Plan* plan : round) {
    const std::lock_guard lock(plan->call.comm->mutex);
    plan->brings_signals = plan->call.comm->signals == nullptr;
  }
  const ncclResult_t ended = together(round, put_registrations);
  for (Plan* plan : round) {
    if (plan->failure == ncclSuccess && !plan->is_complete()) plan->fail(ended);
  }
  add_windows_of_gpus(round);
  for (Plan* plan : round) hand_out(*plan);
}

}  // namespace

ncclResult_t add_windows(const std::vector<WindowCall>& calls) {
  std::vector<Plan> plans(calls.begin(), calls.end());
  for (const Round& round : rounds_of(plans)) add(round);
  for (const Plan& plan : plans) {
    if (plan.failure != ncclSuccess) return fail(plan.failure, plan.message);
  }
  return ncclSuccess;
}

ncclResult_t end_window(ncclComm_t comm, ncclWindow_vidmem& window) {
  const auto is_refusal = [](tuttiResult_t result) {
    return result == tuttiInvalidUsage || result == tuttiInvalidArgument;
  };
  tuttiResult_t first = tuttiSuccess;
  if (window.window != nullptr) {
    first = tuttiCommWindowDeregister(comm->tutti, window.window);
    if (is_refusal(first)) return translate(first);
    window.window = nullptr;
  }
  if (window.registration != nullptr) {
    const tuttiResult_t result = tuttiCommDeregister(comm->tutti, window.registration);
    if (first == tuttiSuccess) first = result;
    if (!is_refusal(result)) window.registration = nullptr;
  }
  return translate(first);
}

}  // namespace tutti::nccl
