#include "tests/software_device/protocol/rank.h"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "tests/software_device/send_memory.h"

namespace softdev {
namespace {

unsigned char byte_at(int rank, uint32_t iteration, size_t i) {
  return static_cast<unsigned char>(i * 7 + static_cast<size_t>(rank) * 31 + iteration * 13);
}

size_t window_bytes(const ProtocolOptions& options) {
  const size_t slots = options.bytes * static_cast<size_t>(options.ranks);
  return (slots + 511) / 512 * 512 + kHostFlagBytes;
}

}  // namespace

void Rank::require(const Status& status, const char* what) const {
  if (status.ok()) return;
  std::fprintf(stderr, "rank %d: %s: %s\n", me_, what, std::string(status.message()).c_str());
  _exit(kDriverFailed);
}

void Rank::require(CUresult result, const char* what) const {
  require(cuda_.check(result, what), what);
}

template <class Value>
Value Rank::required(Result<Value> result, const char* what) const {
  require(result.status(), what);
  return std::move(result).value();
}

/// All ranks come here, and what each did before is known to all afterwards.
void Rank::meet() {
  const auto key = static_cast<uint64_t>(meetings_++);
  if (client_.hooks.release != nullptr) client_.hooks.release(key);
  std::atomic<int>& arrived = meeting_.board->arrived[key];
  ++arrived;
  while (arrived < ranks_) sched_yield();
  if (client_.hooks.acquire != nullptr) client_.hooks.acquire(key);
}

Rank::Rank(const Meeting& meeting, const Client& client, int me)
    : meeting_(meeting),
      options_(*meeting.options),
      client_(client),
      cuda_(client.cuda()),
      me_(me),
      ranks_(meeting.options->ranks),
      windows_(static_cast<size_t>(ranks_)) {
  device_ = me_ % cuda_.devices();
  primary_ = std::make_unique<cuda::PrimaryContext>(
      required(cuda::PrimaryContext::retain(cuda_, device_), "a context"));
  scope_ = std::make_unique<cuda::ContextScope>(cuda_, primary_->get());
  require(scope_->status(), "the context");
  stream_ =
      std::make_unique<cuda::CudaStream>(required(cuda::CudaStream::create(cuda_), "a stream"));
  host_ = std::make_unique<cuda::PinnedMemory>(
      required(cuda::PinnedMemory::allocate(cuda_, window_bytes(options_)), "pinned memory"));
  require(client_.more.cuMemAlloc(&data_, options_.bytes), "cuMemAlloc");
  require(client_.more.cuMemAlloc(&number_, 512), "cuMemAlloc");
  if (options_.host_flags) {
    host_flags_ = std::make_unique<cuda::RegisteredMemory>(
        required(cuda::RegisteredMemory::create(cuda_, meeting_.host_flags,
                                                kHostFlagBytes * static_cast<size_t>(ranks_)),
                 "shared flags"));
  }
  open_window();
  open_peers();
  if (options_.graph) capture_iteration();
}

Rank::~Rank() {
  meet();  // nobody ends memory that a peer still writes
  if (graph_ != nullptr) client_.more.cuGraphExecDestroy(graph_);
  for (int peer = 0; peer < ranks_ && options_.legacy_handles; ++peer) {
    if (peer != me_) client_.more.cuIpcCloseMemHandle(windows_[static_cast<size_t>(peer)]);
  }
  meet();
  if (options_.legacy_handles) client_.more.cuMemFree(windows_[static_cast<size_t>(me_)]);
  client_.more.cuMemFree(number_);
  client_.more.cuMemFree(data_);
}

void Rank::open_window() {
  CUdeviceptr& window = windows_[static_cast<size_t>(me_)];
  const size_t bytes = window_bytes(options_);
  if (options_.legacy_handles) {
    require(client_.more.cuMemAlloc(&window, bytes), "cuMemAlloc");
    require(
        client_.more.cuIpcGetMemHandle(&meeting_.board->handles[static_cast<size_t>(me_)], window),
        "cuIpcGetMemHandle");
  } else {
    memory_.push_back(
        required(cuda::DeviceMemory::allocate(cuda_, device_, bytes), "device memory"));
    window = memory_.back().address();
    for (int peer = 0; peer < ranks_ && !options_.threads; ++peer) {
      if (peer != me_) require(send_memory(meeting_.sockets[me_][peer][0], memory_[0]), "sending");
    }
    for (int other = 0; other < cuda_.devices() && options_.threads; ++other) {
      require(memory_[0].let_reach(other), "access of another device");
    }
  }
  require(client_.more.cuMemsetD8(window, 0, bytes), "cuMemsetD8");
  meeting_.board->windows[static_cast<size_t>(me_)] = window;
}

CUdeviceptr Rank::open_peer(int peer) {
  if (options_.threads) return meeting_.board->windows[static_cast<size_t>(peer)];
  if (options_.legacy_handles) {
    CUdeviceptr window = 0;
    require(client_.more.cuIpcOpenMemHandle(
                &window, meeting_.board->handles[static_cast<size_t>(peer)], kIpcLazyPeerAccess),
            "cuIpcOpenMemHandle");
    return window;
  }
  uint64_t bytes = 0;
  const tutti::Fd descriptor =
      required(receive_memory(meeting_.sockets[peer][me_][1], &bytes), "receiving");
  memory_.push_back(required(cuda::DeviceMemory::import(cuda_, descriptor.get(), bytes, device_),
                             "memory of a peer"));
  return memory_.back().address();
}

void Rank::open_peers() {
  meet();
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer != me_) windows_[static_cast<size_t>(peer)] = open_peer(peer);
  }
  meet();
}

CUdeviceptr Rank::slot_of(int owner, int writer) const {
  return windows_[static_cast<size_t>(owner)] + options_.bytes * static_cast<size_t>(writer);
}

CUdeviceptr Rank::flag_of(int owner, Flag flag, int writer) const {
  const size_t word = (flag * kMostRanks + static_cast<size_t>(writer)) * sizeof(uint32_t);
  if (options_.host_flags) {
    return host_flags_->address() + kHostFlagBytes * static_cast<size_t>(owner) + word;
  }
  return windows_[static_cast<size_t>(owner)] + window_bytes(options_) - kHostFlagBytes + word;
}

void Rank::copy_flags(Flag flag, uint32_t number) {
  operations_.clear();
  operations_.write_32(number_, number);
  require(operations_.submit(cuda_, stream_->get()), "a write");
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == me_) continue;
    require(
        cuda_.call.cuMemcpyAsync(flag_of(peer, flag, me_), number_, sizeof number, stream_->get()),
        "cuMemcpyAsync");
  }
}

void Rank::tell_and_wait(Flag flag, uint32_t number) {
  if (options_.copied_flags) copy_flags(flag, number);
  operations_.clear();
  for (int peer = 0; peer < ranks_ && !options_.copied_flags; ++peer) {
    if (peer != me_) operations_.write_32(flag_of(peer, flag, me_), number);
  }
  const int skipped = options_.fault == Fault::kOneWaitTooFew && flag == kDone ? 1 : 0;
  for (int distance = 1; distance < ranks_ - skipped; ++distance) {
    const CUdeviceptr word = flag_of(me_, flag, (me_ + distance) % ranks_);
    operations_.wait_at_least_32(word, number);
    if (options_.graph) operations_.write_32(word, 0);
  }
  require(operations_.submit(cuda_, stream_->get()), "operations on flags");
}

/// To the next rank first, so that not all write to the same one.
void Rank::push(uint32_t number) {
  copies_.clear();
  for (int distance = 0; distance < ranks_; ++distance) {
    copies_.add(slot_of((me_ + distance) % ranks_, me_), data_, options_.bytes);
  }
  if (options_.fault == Fault::kFlagInBatch) {
    operations_.clear();
    operations_.write_32(number_, number);
    require(operations_.submit(cuda_, stream_->get()), "a write");
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer != me_) copies_.add(flag_of(peer, kDone, me_), number_, sizeof number);
    }
  }
  require(copies_.submit(cuda_, stream_->get()), "copies");
}

void Rank::enqueue_iteration(uint32_t number) {
  if (options_.fault != Fault::kNoReady) tell_and_wait(kReady, number);
  push(number);
  if (options_.fault == Fault::kFlagInBatch) {
    operations_.clear();
    for (int peer = 0; peer < ranks_; ++peer) {
      if (peer != me_) operations_.wait_at_least_32(flag_of(me_, kDone, peer), number);
    }
    require(operations_.submit(cuda_, stream_->get()), "waits");
  } else if (options_.fault != Fault::kNoDone) {
    tell_and_wait(kDone, number);
  }
}

void Rank::capture_iteration() {
  require(client_.more.cuStreamBeginCapture(stream_->get(), kCaptureThreadLocal), "capture");
  enqueue_iteration(1);
  CUgraph graph = nullptr;
  require(client_.more.cuStreamEndCapture(stream_->get(), &graph), "the end of the capture");
  require(client_.more.cuGraphInstantiateWithFlags(&graph_, graph, 0), "a graph");
  require(client_.more.cuGraphDestroy(graph), "cuGraphDestroy");
}

bool Rank::iterate(uint32_t number) {
  auto* host = static_cast<unsigned char*>(host_->data());
  for (size_t i = 0; i < options_.bytes; ++i) host[i] = byte_at(me_, number, i);
  require(cuda_.call.cuMemcpyAsync(data_, host_->address(), options_.bytes, stream_->get()),
          "the input");
  if (graph_ != nullptr) {
    require(client_.more.cuGraphLaunch(graph_, stream_->get()), "cuGraphLaunch");
  } else {
    enqueue_iteration(number);
  }
  const size_t all = options_.bytes * static_cast<size_t>(ranks_);
  require(cuda_.call.cuMemcpyAsync(host_->address(), windows_[static_cast<size_t>(me_)], all,
                                   stream_->get()),
          "the output");
  require(stream_->synchronize(), "the iteration");
  for (int rank = 0; rank < ranks_; ++rank) {
    for (size_t i = 0; i < options_.bytes; ++i) {
      if (host[options_.bytes * static_cast<size_t>(rank) + i] != byte_at(rank, number, i)) {
        return false;
      }
    }
  }
  return true;
}

bool Rank::run() {
  bool right = true;
  for (int i = 1; i <= options_.iterations; ++i) right &= iterate(static_cast<uint32_t>(i));
  return right;
}

}  // namespace softdev
