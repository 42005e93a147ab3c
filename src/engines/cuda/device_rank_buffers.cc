// The parts of CudaDeviceRank about where the buffers of a call lie, and how much a call would put
// into a stream wherever they do.
#include "src/drivers/cuda/context.h"
#include "src/engines/cuda/device_rank.h"

namespace tutti::engines::cuda {
namespace {

void place(const exec::PeerBuffers& buffers, std::vector<CUdeviceptr>& places) {
  places.clear();
  if (buffers.memory == nullptr) return;
  for (std::byte* const range : buffers.memory->ranges()) {
    const uint64_t offset = buffers.offset + places.size() * buffers.stride;
    places.push_back(reinterpret_cast<CUdeviceptr>(range) + offset);
  }
}

}  // namespace

Status CudaDeviceRank::start(CUstream stream, const exec::StreamedCall& call) {
  const auto send = reinterpret_cast<CUdeviceptr>(call.call.send);
  const auto recv = reinterpret_cast<CUdeviceptr>(call.call.recv);
  place(call.inputs, inputs_);
  place(call.outputs, outputs_);
  StreamCall put{call.first_copied > 0 ? recv : send,   recv,    stream,
                 call.factor ? &*call.factor : nullptr, inputs_, outputs_};
  if (call.plan->lanes.size() > 1) {
    const Result<const SideStream*> side = sides_.find(stream, 0);
    if (!side.ok()) return side.status();
    put.side = side.value();
  }
  machine_.start(*call.plan, put);
  return machine_.copy_first(recv, send, call.first_copied);
}

Result<std::shared_ptr<const exec::PeerMemory>> CudaDeviceRank::share(std::byte* memory,
                                                                      uint64_t bytes) {
  const drivers::cuda::ContextScope scope(cuda_, context_);  // without it the driver says so
  return CudaPeerMemory::share(cuda_, ring_->device(), options_, memory, bytes);
}

exec::DeviceCounts CudaDeviceRank::count(const plan::Plan& plan, bool scales,
                                         uint64_t first_copied) {
  // Buffers that do not overlap.
  constexpr uint64_t kApart = uint64_t{1} << 48;
  const uint64_t ranks = options_.arenas.size();
  std::vector<CUdeviceptr> inputs, outputs;
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    inputs.push_back((3 + rank) * kApart);
    outputs.push_back((3 + ranks + rank) * kApart);
  }
  const types::Scalar any_factor;
  StreamMachine counting(nullptr, kernels_.get(), addresses());
  plan::Walk<StreamMachine> walk(plan::Engine::kDevice);
  plan::Cursors cursors = cursors_;
  const uint64_t send = first_copied > 0 ? 2 * kApart : kApart;
  counting.start(plan,
                 {send, 2 * kApart, nullptr, scales ? &any_factor : nullptr, inputs, outputs});
  (void)counting.copy_first(2 * kApart, kApart, first_copied);
  walk.start(plan, cursors);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk.advance(counting);
  (void)counting.finish(0, 1);
  return counting.counts();
}

exec::DeviceCounts CudaDeviceRank::count(std::span<const exec::Transfer> transfers) {
  CountedPairs counting(nullptr, ring_->pair_addresses());
  (void)counting.put(nullptr, transfers);
  (void)counting.finish(0, 1);
  return counting.counts();
}

}  // namespace tutti::engines::cuda
