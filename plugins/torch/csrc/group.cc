// How the backend's lanes, recordings and groups come and go; the collectives are in backend.cc.
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "backend.h"
#include "errors.h"
#include "monitored_barrier.h"
#include "operations.h"
#include "types.h"

namespace tutti_torch {
namespace {

uint64_t random_number() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

/// The error of a call that ended otherwise than by an abort of its own group.
tuttiResult_t result_of(const std::exception_ptr& error) {
  if (error == nullptr) return tuttiSuccess;
  try {
    std::rethrow_exception(error);
  } catch (const CallError& failed) {
    return failed.result;
  } catch (...) {
    return tuttiSuccess;  // a copy failed: the communicator is well
  }
}

}  // namespace

ProcessGroupTutti::ProcessGroupTutti(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                                     c10::intrusive_ptr<Options> options, bool enable_reconfigure)
    : Backend(rank, size),
      store_(std::move(store)),
      options_(std::move(options)),
      enable_reconfigure_(enable_reconfigure),
      pid_(getpid()),
      nonce_(random_number()),
      abort_hooks_(std::make_shared<AbortHooks>("abort")),
      completion_hooks_(std::make_shared<CompletionHooks>("completion")) {
  TORCH_CHECK_VALUE(size >= 1 && rank >= 0 && rank < size, "tutti: rank ", rank, " of ", size);
  if (!enable_reconfigure_) collectives_ = make_lane("collectives", rank, size, group());
  init();
}

ProcessGroupTutti::~ProcessGroupTutti() {
  if (getpid() != pid_) return;
  const bool failed = getError() != c10d::ErrorType::SUCCESS;
  for (const auto& lane : take_lanes()) failed ? lane->abandon() : lane->shutdown();
}

std::string ProcessGroupTutti::group() const {
  return options_->group_name.empty() ? "group" : "group " + options_->group_name;
}

std::string ProcessGroupTutti::generation() const {
  return uuid_ < 0 ? std::string() : "reconfigure/" + std::to_string(uuid_) + "/";
}

std::chrono::milliseconds ProcessGroupTutti::limit(std::chrono::milliseconds timeout) const {
  return timeout == c10d::kUnsetTimeout ? options_->timeout : timeout;
}

// ---- hooks ------------------------------------------------------------------------------------

template <class... Arguments>
void Hooks<Arguments...>::add(int64_t id, Hook hook) {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_VALUE(hooks_.emplace(id, std::move(hook)).second, "tutti: the ", kind_, " hook ", id,
                    " is registered already");
}

template <class... Arguments>
void Hooks<Arguments...>::remove(int64_t id) {
  const std::lock_guard lock(mutex_);
  hooks_.erase(id);
}

template <class... Arguments>
void Hooks<Arguments...>::run(Arguments... arguments) {
  std::vector<Hook> hooks;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, hook] : hooks_) hooks.push_back(hook);
  }
  for (const auto& hook : hooks) {
    try {
      hook(arguments...);
    } catch (const std::exception& error) {
      TORCH_WARN("tutti: the ", kind_, " hook failed: ", error.what());
    }
  }
}

// tidy: allow mutable (no variable: an instantiation)
template class Hooks<>;
// tidy: allow mutable (as above)
template class Hooks<const c10d::CompletionHookArgs&>;

namespace {

template <class Args>
concept Known = requires {
  sizeof(Args);
};

/// A PyTorch without completion hooks has registered none.
template <class Args>
void tell_completion(Hooks<const Args&>& hooks, const WorkTutti& work) {
  if constexpr (Known<Args>) {
    Args told;
    told.completionKey = work.getCompletionKey();
    told.duration_ms = work.getDuration();
    hooks.run(told);
  }
}

}  // namespace

#ifdef C10D_BACKEND_HAS_HOOKS
void ProcessGroupTutti::registerAbortHook(int64_t id, c10d::AbortHook hook) {
  abort_hooks_->add(id, std::move(hook));
}

void ProcessGroupTutti::unregisterAbortHook(int64_t id) { abort_hooks_->remove(id); }
#endif

// ---- lanes ------------------------------------------------------------------------------------

Lane::Observer ProcessGroupTutti::observer() const {
  return [aborted = abort_hooks_, completed = completion_hooks_](WorkTutti& work,
                                                                 const std::exception_ptr& error) {
    if (error == nullptr) return tell_completion(*completed, work);
    const tuttiResult_t result = result_of(error);
    if (result != tuttiSuccess && result != tuttiInvalidArgument) aborted->run();
  };
}

std::shared_ptr<Lane> ProcessGroupTutti::make_lane(const std::string& key, int rank, int ranks,
                                                   const std::string& name) const {
  return std::make_shared<Lane>(Place{store_, "tutti/" + key, rank, ranks, name}, observer());
}

tuttiEditReport_t ProcessGroupTutti::last_edit() const {
  const std::lock_guard lock(mutex_);
  return collectives_ == nullptr ? tuttiEditReport_t{} : collectives_->communicator().last_edit();
}

std::shared_ptr<Lane> ProcessGroupTutti::collectives() const {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(DistBackendError, collectives_ != nullptr, "tutti: ", group(),
                   enable_reconfigure_ && uuid_ < 0
                       ? " has no members before its first reconfigure()"
                       : " was shut down");
  return collectives_;
}

std::shared_ptr<Lane> ProcessGroupTutti::pair_lane(int source, int destination) {
  collectives();  // the group exists
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Lane>& lane = pairs_[{source, destination}];
  if (lane == nullptr) {
    const std::string pair = std::to_string(source) + "-" + std::to_string(destination);
    lane = make_lane(generation() + "pair/" + pair, getRank() == source ? 0 : 1, 2,
                     group() + ", from rank " + std::to_string(source) + " to rank " +
                         std::to_string(destination) + " (here ranks 0 and 1)");
  }
  return lane;
}

std::vector<std::shared_ptr<Lane>> ProcessGroupTutti::lanes() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Lane>> all;
  for (const auto& [pair, lane] : pairs_) all.push_back(lane);
  if (collectives_ != nullptr) all.push_back(collectives_);
  return all;
}

std::vector<std::shared_ptr<Lane>> ProcessGroupTutti::take_lanes() {
  std::vector<std::shared_ptr<Lane>> all = lanes();
  const std::lock_guard lock(mutex_);
  pairs_.clear();
  collectives_.reset();
  recording_.reset();
  return all;
}

// ---- calls ------------------------------------------------------------------------------------

WorkPtr ProcessGroupTutti::issue(Operation operation, Issue what) {
  const std::shared_ptr<Lane> lane = collectives();
  {
    const std::lock_guard lock(mutex_);
    ++sequence_;
  }
  return issue_on(lane, std::move(operation), std::move(what));
}

WorkPtr ProcessGroupTutti::issue_on(const std::shared_ptr<Lane>& lane, Operation operation,
                                    Issue what) {
  Call call{what.type,
            what.title,
            std::move(what.inputs),
            std::move(what.outputs),
            limit(what.timeout),
            0,
            getRank(),
            what.source};
  call.sequence = getSequenceNumberForGroup();
  auto work = c10::make_intrusive<WorkTutti>(std::move(call), std::move(operation), lane);
  if (const auto recorded = recording()) {
    work->set_recording(recorded);
    recorded->add(work);
  } else if (what.async) {
    lane->submit(work);
  } else {
    lane->run(work);
  }
  return work;
}

void ProcessGroupTutti::run_behind(const char* title, std::function<void(tuttiComm_t)> work) {
  const std::shared_ptr<Lane> lane = collectives();
  Operation operation;
  operation.add_fold([lane, work = std::move(work)] { work(lane->communicator().made()); });
  Call call;
  call.title = title;
  call.timeout = options_->timeout;
  const auto waited = c10::make_intrusive<WorkTutti>(std::move(call), std::move(operation), lane);
  lane->run(waited);
  waited->wait();
}

void ProcessGroupTutti::eagerConnectSingleDevice(at::Device) {
  run_behind("tutti:connect", [](tuttiComm_t) {});
}

std::string ProcessGroupTutti::explain(const std::string& collective, size_t count,
                                       at::ScalarType type) {
  std::string text;
  const auto by = reduction_of(c10d::ReduceOp::SUM, type);
  TORCH_CHECK_TYPE(by.has_value(), "tutti: the library has no type ", type);
  run_behind("tutti:explain", [&](tuttiComm_t comm) {
    size_t needed = 0;
    tuttiExplain(comm, collective.c_str(), count, by->type, nullptr, 0, &needed);
    text.resize(needed);
    check(
        tuttiExplain(comm, collective.c_str(), count, by->type, text.data(), text.size(), &needed),
        "explaining " + collective, comm, options_->timeout);
  });
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

uint64_t ProcessGroupTutti::getSequenceNumberForGroup() {
  const std::lock_guard lock(mutex_);
  return sequence_;
}

// ---- recordings -------------------------------------------------------------------------------

std::shared_ptr<Recording> ProcessGroupTutti::recording() const {
  const std::lock_guard lock(mutex_);
  return recording_ != nullptr && recording_->is_of_this_thread() ? recording_ : nullptr;
}

std::shared_ptr<Recording> ProcessGroupTutti::take_recording() {
  const std::lock_guard lock(mutex_);
  return std::exchange(recording_, nullptr);
}

void ProcessGroupTutti::startCoalescing() {
  // Left over from a program that failed before it came to the end.
  if (const auto left = take_recording()) left->issue();
  const std::lock_guard lock(mutex_);
  recording_ = std::make_shared<Recording>();
}

WorkPtr ProcessGroupTutti::endCoalescing() {
  const auto recorded = take_recording();
  TORCH_CHECK_WITH(DistBackendError, recorded != nullptr,
                   "tutti: endCoalescing() without startCoalescing()");
  const auto works = recorded->all();
  recorded->issue();
  return c10::make_intrusive<BatchWork>(getRank(), works);
}

float ProcessGroupTutti::endTimeEstimate() {
  const auto recorded = take_recording();
  TORCH_CHECK_WITH(DistBackendError, recorded != nullptr,
                   "tutti: endTimeEstimate() without startTimeEstimate()");
  Operation all;
  for (const auto& work : recorded->take()) {
    TORCH_CHECK_WITH(DistBackendError, work->lane() == collectives(),
                     "tutti: the time of sends and receives cannot be estimated");
    all.append(work->take_operation());
  }
  uint64_t nanoseconds = 0;
  run_behind("tutti:time_estimate", [&](tuttiComm_t comm) {
    nanoseconds = all.predict(comm, "estimating the time of collectives");
  });
  return static_cast<float>(nanoseconds) / 1000.0F;
}

// ---- groups made from this one ----------------------------------------------------------------

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) {
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return nullptr;
  options->global_ranks_in_group.clear();
  for (const int rank : ranks) {
    const auto& global = options_->global_ranks_in_group;
    options->global_ranks_in_group.push_back(global.empty() ? static_cast<uint64_t>(rank)
                                                            : global.at(rank));
  }
  return c10::make_intrusive<ProcessGroupTutti>(store->clone(),
                                                static_cast<int>(own - ranks.begin()),
                                                static_cast<int>(ranks.size()), options, false);
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupTutti::merge(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<Options>& options,
    const int& rank, const int& size) {
  return c10::make_intrusive<ProcessGroupTutti>(store->clone(), rank, size, options, false);
}

// ---- barriers that say who is missing ---------------------------------------------------------

void ProcessGroupTutti::monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) {
  collectives();
  std::string key;
  {
    const std::lock_guard lock(mutex_);
    key = "tutti/" + generation() + "monitored/" + std::to_string(monitored_++) + "/";
  }
  run({key, limit(opts.timeout), wait_all_ranks, group()}, *store_, group_of(*this));
}

// ---- the end ----------------------------------------------------------------------------------

c10d::ErrorType ProcessGroupTutti::getError() {
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) return c10d::ErrorType::SUCCESS;
  }
  for (const auto& lane : lanes()) {
    switch (lane->communicator().failure()) {
      case tuttiSuccess:
        break;
      case tuttiTimeout:
        return c10d::ErrorType::TIMEOUT;
      case tuttiRemoteError:
        return c10d::ErrorType::REMOTE_ERROR;
      default:
        return c10d::ErrorType::COMM_ERROR;
    }
  }
  return c10d::ErrorType::SUCCESS;
}

void ProcessGroupTutti::abort() {
  if (getpid() != pid_) return;
  abort_hooks_->run();
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  std::shared_ptr<Lane> healed;  // by the next reconfigure()
  {
    const std::lock_guard lock(mutex_);
    if (enable_reconfigure_) healed = collectives_;
  }
  for (const auto& lane : lanes()) lane == healed ? lane->revoke() : lane->abort();
}

void ProcessGroupTutti::shutdown() {
  if (getpid() != pid_) return;
  if (const auto left = take_recording()) left->issue();
  for (const auto& lane : take_lanes()) lane->shutdown();
}

}  // namespace tutti_torch
