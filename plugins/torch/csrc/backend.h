// The c10d backend: every method makes an Operation (operations.h) and gives it to a lane.
//
// Collectives share one lane, and so one communicator, and run in the order of the calls. Sends and
// receives have a lane for each peer and direction, with a communicator of two ranks that is made
// when the first message needs it: what goes to one peer waits for nothing but its own receiver.
//
// The base names of c10d's methods are overridden, which exist in all versions of PyTorch from 2.9
// on; newer names forward to them. Additions of a version are guarded by its headers' own macros.
//
// Owns:    the lanes; the store and the options are shared.
// Threads: any; the calls of one thread run in its order.
// Errors:  DistBackendError where a call failed, ValueError and TypeError where it was refused; a
//          failed call is final for its lane.
// Units:   milliseconds.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "batch.h"
#include "lane.h"
#include "operation.h"

// PyTorch has it from 2.15 on.
namespace c10d {
struct CompletionHookArgs;
}

namespace tutti_torch {

struct MembershipChange;
class MembershipMeeting;

using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

/// Functions that are told of an event, with its arguments.
/// Threads: any; hooks run without a lock, in the thread that tells.
template <class... Arguments>
class Hooks {
 public:
  using Hook = std::function<void(Arguments...)>;

  explicit Hooks(const char* kind) : kind_(kind) {}
  void add(int64_t id, Hook hook);
  void remove(int64_t id);
  void run(Arguments... arguments);

 private:
  const char* const kind_;
  std::mutex mutex_;
  std::map<int64_t, Hook> hooks_;
};

/// Before a failed group is aborted.
using AbortHooks = Hooks<>;
/// A call has ended well.
using CompletionHooks = Hooks<const c10d::CompletionHookArgs&>;

class ProcessGroupTutti : public c10d::Backend {
 public:
  using Options = c10d::Backend::Options;

  ProcessGroupTutti(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                    c10::intrusive_ptr<Options> options, bool enable_reconfigure);
  ~ProcessGroupTutti() override;

  const std::string getBackendName() const override { return "tutti"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
#ifdef C10D_BACKEND_HAS_CAPABILITIES
  c10d::BackendCapabilities capabilities() const override;
#else
  bool supportsSplitting() const override { return true; }
  bool supportsCoalescing() const override { return true; }
  bool supportsTimeEstimation() const override { return true; }
#endif

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  /// Overrides c10d's method of this name where it exists.
  virtual WorkPtr gather_into_tensor(at::Tensor& output, at::Tensor& input,
                                     const c10d::GatherOptions& opts);
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits,
                        const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;

  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  /// Override c10d's methods of these names where it has them.
  virtual void startTimeEstimate() { startCoalescing(); }
  virtual float endTimeEstimate();

  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& options) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<Options>& options,
                                          const int& rank, const int& size) override;

#ifdef C10D_BACKEND_HAS_RECONFIGURE
#ifndef C10D_BACKEND_HAS_CAPABILITIES
  bool supportsReconfigure() const override { return true; }
#endif
  c10d::ReconfigureHandle get_reconfigure_handle() const override;
  WorkPtr reconfigure(const c10d::ReconfigureOptions& opts) override;
#endif
#ifdef C10D_BACKEND_HAS_HOOKS
#ifndef C10D_BACKEND_HAS_CAPABILITIES
  bool supportsAbortHooks() const override { return true; }
#endif
  void registerAbortHook(int64_t id, c10d::AbortHook hook) override;
  void unregisterAbortHook(int64_t id) override;
#endif
  /// Override c10d's methods of these names where it has them.
  virtual bool supportsCompletionHooks() const { return true; }
  virtual void registerCompletionHook(int64_t id, CompletionHooks::Hook hook) {
    completion_hooks_->add(id, std::move(hook));
  }
  virtual void unregisterCompletionHook(int64_t id) { completion_hooks_->remove(id); }

  uint64_t getSequenceNumberForGroup() override;
  void setSequenceNumberForGroup() override {}  // they begin at 0 on every rank
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void eagerConnectSingleDevice(at::Device device) override;
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

  /// The last edit of this group's members in place; all 0 where there was none.
  tuttiEditReport_t last_edit() const;
  /// The algorithm that a collective of so many elements would run, and the reason: tuttiExplain().
  std::string explain(const std::string& collective, size_t count, at::ScalarType type);

 private:
  struct Issue {
    c10d::OpType type;
    const char* title;
    Tensors inputs;
    Tensors outputs;
    std::chrono::milliseconds timeout;
    bool async = true;
    int source = -1;
  };

  WorkPtr issue(Operation operation, Issue what);
  WorkPtr issue_on(const std::shared_ptr<Lane>& lane, Operation operation, Issue what);
  /// Runs `work` behind the collectives before it, with their communicator, and waits.
  void run_behind(const char* title, std::function<void(tuttiComm_t)> work);
  std::shared_ptr<Lane> make_lane(const std::string& key, int rank, int ranks,
                                  const std::string& name) const;
  Lane::Observer observer() const;
  std::shared_ptr<Lane> next_lane(MembershipMeeting& meeting, const std::string& key, int rank,
                                  int size);
  static void edit(Communicator& communicator, MembershipMeeting& meeting,
                   const MembershipChange& change, int rank);
  void take_over(const std::shared_ptr<Lane>& lane, int64_t uuid, int rank, int size);
  std::shared_ptr<Lane> collectives() const;
  std::shared_ptr<Lane> pair_lane(int source, int destination);
  /// In the order in which all ranks end them: each waits for its peers then.
  std::vector<std::shared_ptr<Lane>> lanes() const;
  std::vector<std::shared_ptr<Lane>> take_lanes();
  std::shared_ptr<Recording> recording() const;
  std::shared_ptr<Recording> take_recording();
  std::string group() const;
  std::string generation() const;
  std::chrono::milliseconds limit(std::chrono::milliseconds timeout) const;
  void check_peer(int peer, int tag, const Tensors& tensors) const;

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::intrusive_ptr<Options> options_;
  const bool enable_reconfigure_;
  const int pid_;
  const uint64_t nonce_;
  const std::shared_ptr<AbortHooks> abort_hooks_;
  const std::shared_ptr<CompletionHooks> completion_hooks_;
  mutable std::mutex mutex_;           // guards what follows
  std::shared_ptr<Lane> collectives_;  // null before the first reconfigure() of that regime
  std::map<std::pair<int, int>, std::shared_ptr<Lane>> pairs_;  // by source and destination
  std::shared_ptr<Recording> recording_;
  uint64_t sequence_ = 0;
  uint64_t monitored_ = 0;
  int64_t uuid_ = -1;      // of the last reconfigure() that succeeded
  uint64_t attempts_ = 0;  // of reconfigure(): makes handles unique
  bool aborted_ = false;   // by this rank
};

}  // namespace tutti_torch
