// The parts of CudaDeviceRank about where the buffers of a call lie, and how much a call would put
// into a stream wherever they do.
#include <algorithm>

#include "src/drivers/cuda/context.h"
#include "src/engines/cuda/agreement.h"
#include "src/engines/cuda/device_rank.h"
#include "src/engines/cuda/network_crossing.h"
#include "src/engines/cuda/peer_memory.h"
#include "src/engines/cuda/ring_parts.h"
#include "src/engines/streams/captured_words.h"

namespace tutti::engines::cuda {
namespace {

/// `arrived` empty: of an eager call.
std::shared_ptr<exec::NetworkCrossing> crossing_of(std::unique_ptr<BounceSlot> slot,
                                                   StreamInContext where, PutCall put,
                                                   std::function<void()> arrived) {
  if (!arrived) {
    auto made = std::make_shared<CudaNetworkCrossing>(std::move(slot), where);
    made->set(std::move(put));
    return made;
  }
  auto made = std::make_shared<CapturedNetworkCrossing>(std::move(slot), where, std::move(arrived));
  made->set(std::move(put));
  return made;
}

}  // namespace

Status CudaDeviceRank::start(CUstream stream, const exec::StreamedCall& call) {
  const auto send = reinterpret_cast<CUdeviceptr>(call.call.send);
  const auto recv = reinterpret_cast<CUdeviceptr>(call.call.recv);
  find_places(call.inputs, inputs_);
  find_places(call.outputs, outputs_);
  StreamCall put{call.first_copied > 0 ? recv : send,   recv,    stream,
                 call.factor ? &*call.factor : nullptr, inputs_, outputs_};
  put.engines_alone = options_.engines_alone || call.engines_alone;
  put.bounce = call.bounce;
  put.levels = vendor_.get();
  put.deadline_ns = call.call.deadline_ns;
  put.ctas = {call.least_ctas, call.most_ctas};
  const Result<SideStream*> side = sides_.find(stream, 0, call.plan->lanes.size());
  if (!side.ok()) return side.status();
  put.side = side.value();
  machine_.start(*call.plan, put);
  return machine_.copy_first(recv, send, call.first_copied);
}

Result<std::shared_ptr<exec::NetworkCrossing>> CudaDeviceRank::cross(
    exec::StreamedCall call, std::shared_ptr<const exec::NetworkPlan> plan,
    std::function<void()> arrived) {
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (!scope.status().ok()) return scope.status();
  Result<std::unique_ptr<BounceSlot>> slot =
      BounceSlot::take(HostStagingPool::of_process(cuda_), plan);
  if (!slot.ok()) return slot.status();
  call.plan = &plan->plan;
  call.bounce = plan->in(slot.value()->memory());
  call.over = [](const Status&) {};  // the host's part tells of the end
  const StreamInContext where{context_, static_cast<CUstream>(call.where.stream)};
  PutCall put = [this, plan, call = std::move(call)] { return enqueue(call); };
  return crossing_of(std::move(slot).value(), where, std::move(put), std::move(arrived));
}

Result<std::shared_ptr<exec::NetworkCrossing>> CudaDeviceRank::cross(
    exec::StreamedTransfers call, std::shared_ptr<const exec::BouncePairs> pairs,
    std::function<void()> arrived) {
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (!scope.status().ok()) return scope.status();
  Result<std::unique_ptr<BounceSlot>> slot =
      BounceSlot::take(HostStagingPool::of_process(cuda_), pairs);
  if (!slot.ok()) return slot.status();
  call.bounce = {pairs.get(), slot.value()->memory()};
  call.over = [](const Status&) {};
  const StreamInContext where{context_, static_cast<CUstream>(call.where.front().stream)};
  PutCall put = [this, pairs, call = std::move(call)] { return enqueue(call); };
  return crossing_of(std::move(slot).value(), where, std::move(put), std::move(arrived));
}

std::optional<int> CudaDeviceRank::find_late() {
  const std::optional<int> late = calls_.find_late();
  return late ? late : captured_->find_late();
}

Result<std::shared_ptr<const exec::PeerMemory>> CudaDeviceRank::share(std::byte* memory,
                                                                      uint64_t bytes) {
  const drivers::cuda::ContextScope scope(cuda_, context_);  // without it the driver says so
  return CudaPeerMemory::share(cuda_, ring_->device(), options_, memory, bytes);
}

Status CudaDeviceRank::suspend(const Status& over, uint64_t patience_ns) {
  const drivers::cuda::ContextScope scope(cuda_, context_);
  const auto texts = options_.exchange(outcome_text(over.ok() ? scope.status() : over));
  if (!texts.ok()) return texts.status();
  if (!over.ok()) return over;
  if (Status late = first_problem(texts.value(), options_); !late.ok()) {
    return Status(Code::kTimeout, std::string(late.message()));
  }
  if (Status failed = vendor_->suspend(patience_ns); !failed.ok()) return failed;
  captured_->host_words().forget_begun();
  return ring_->release(options_);
}

Status CudaDeviceRank::resume(uint64_t patience_ns) {
  const drivers::cuda::ContextScope scope(cuda_, context_);  // without it the driver says so
  if (Status lacks = ring_->restore(options_); !lacks.ok()) return lacks;
  Status lacks = vendor_->find_room();
  if (lacks.ok()) return vendor_->resume(patience_ns);
  const Status released = ring_->release(options_);
  return released.ok() ? lacks : released;
}

exec::DeviceCounts CudaDeviceRank::count(const plan::Plan& plan, bool scales, uint64_t first_copied,
                                         bool captured) {
  // Buffers that do not overlap.
  constexpr uint64_t kApart = uint64_t{1} << 48;
  const uint64_t ranks = options_.arenas.size();
  std::vector<CUdeviceptr> inputs, outputs;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back((3 + rank) * kApart);
    outputs.push_back((3 + ranks + rank) * kApart);
  }
  const types::Scalar any_factor;
  const exec::BounceLayout layout(plan);
  const bool has_messages = plan.lanes[0].receives + plan.lanes[0].sends > 0;
  exec::BounceWords words{};  // nobody looks
  const exec::BounceBuffer bounce{&words, reinterpret_cast<std::byte*>(kApart / 2),
                                  has_messages ? &layout : nullptr};
  StreamMachine counting(nullptr, kernels_.get(), addresses());
  plan::Walk<StreamMachine> walk(plan::Engine::kDevice);
  plan::Cursors cursors = captured ? first_cursors(options_.ring_bytes) : cursors_;
  const uint64_t send = first_copied > 0 ? 2 * kApart : kApart;
  counting.start(plan, {.send = send,
                        .recv = 2 * kApart,
                        .factor = scales ? &any_factor : nullptr,
                        .inputs = inputs,
                        .outputs = outputs,
                        .captured = captured,
                        .bounce = bounce});
  (void)counting.copy_first(2 * kApart, kApart, first_copied);
  walk.start(plan, cursors);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk.advance(counting);
  (void)counting.finish(0, 1);
  exec::DeviceCounts counts = counting.counts();
  if (captured) add_steps(counts, static_cast<uint32_t>(options_.rank), plan.lanes.size());
  return counts;
}

// CapturedCalls puts these around a plan.
void CudaDeviceRank::add_steps(exec::DeviceCounts& counts, uint32_t rank, size_t lanes) const {
  const auto ranks = static_cast<uint32_t>(options_.arenas.size());
  for (const auto& steps :
       {streams::steps_before(rank, ranks), streams::steps_behind(rank, ranks, lanes)}) {
    counts.operations += steps.size();
    counts.waits += static_cast<uint64_t>(
        std::count_if(steps.begin(), steps.end(), [](const auto& step) { return step.waits; }));
    ++counts.groups;
  }
  ++counts.operations;  // the run is over
  ++counts.host_functions;
}

exec::DeviceCounts CudaDeviceRank::count(const exec::StreamedTransfers& call,
                                         const exec::BouncePairs* pairs) {
  CountedPairs counting(nullptr, ring_->pair_addresses());
  (void)counting.put(
      {.bounce = {pairs, nullptr}, .registered = &call.registered, .kernels = kernels_.get()},
      exec::all_of(call));  // nobody follows its addresses
  (void)counting.finish(0, 1);
  return counting.counts();
}

}  // namespace tutti::engines::cuda
