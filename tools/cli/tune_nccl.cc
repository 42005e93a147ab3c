#include "tools/cli/tune_nccl.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/engines/cuda/nccl_calls.h"

namespace tutti::cli {
namespace {

using namespace drivers::cuda;  // NOLINT(build/namespaces)
using drivers::nccl::Nccl;
using drivers::nccl::NcclComm;
using drivers::nccl::NcclResult;
using schedule::Collective;

constexpr Collective kMeasured[] = {Collective::kAllReduce,     Collective::kAllGather,
                                    Collective::kReduceScatter, Collective::kBroadcast,
                                    Collective::kReduce,        Collective::kAllToAll};
constexpr size_t kBytes[] = {size_t{8} << 10, size_t{64} << 10, size_t{512} << 10, size_t{4} << 20,
                             size_t{32} << 20};
constexpr size_t kMost = kBytes[std::size(kBytes) - 1];

/// A thread that cannot go on ends the program: the kernels of the others wait for its own.
void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "tutti tune: NCCL: %s\n", std::string(status.message()).c_str());
  std::_Exit(1);
}
template <class Value>
Value must(Result<Value> result) {
  must(result.ok() ? Status() : result.status());
  return std::move(result).value();
}

/// All of them have it.
struct Shared {
  const Cuda& cuda;
  const Nccl& nccl;
  drivers::nccl::NcclId id;
  int ranks;
  int repeats;
  std::barrier<>& turn;
  std::atomic<bool> has_none{false};  // some rank has no communicator
};

class Rank {
 public:
  Rank(Shared& shared, int rank)
      : shared_(shared),
        rank_(rank),
        context_(must(PrimaryContext::retain(shared.cuda, rank))),
        scope_(shared.cuda, context_.get()),
        stream_(must(CudaStream::create(shared.cuda))),
        send_(must(DeviceMemory::allocate(shared.cuda, rank, kMost))),
        recv_(must(DeviceMemory::allocate(shared.cuda, rank, kMost))) {
    made_ = make();
    if (!made_.ok()) shared.has_none.store(true);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    if (comm_ != nullptr) (void)shared_.nccl.call.ncclCommAbort(comm_);
  }
  const Status& made() const { return made_; }

  /// Of one call of a row.
  double ns(Collective collective, size_t bytes) {
    constexpr size_t kShort = size_t{1} << 20;
    const int calls = bytes <= kShort ? 20 : 4;
    std::vector<double> found;
    for (int i = 0; i < shared_.repeats + 1; ++i) {
      shared_.turn.arrive_and_wait();
      const uint64_t begin = monotonic_ns();
      for (int call = 0; call < calls; ++call) put(collective, bytes);
      must(stream_.synchronize());
      found.push_back(static_cast<double>(monotonic_ns() - begin) / calls);
    }
    found.erase(found.begin());  // to warm up
    std::nth_element(found.begin(), found.begin() + shared_.repeats / 2, found.end());
    return found[static_cast<size_t>(shared_.repeats / 2)];
  }

 private:
  void put(Collective collective, size_t bytes) {
    const schedule::Traits& traits = schedule::traits_of(collective);
    const bool parts = traits.input.parts || traits.output.parts;
    const size_t all = parts ? bytes / static_cast<size_t>(shared_.ranks) : bytes;
    exec::StreamedCall call;
    call.where.stream = stream_.get();
    call.call.send = reinterpret_cast<const void*>(send_.address());
    call.call.recv = reinterpret_cast<void*>(recv_.address());
    call.described.collective = collective;
    call.described.type = types::DataType::kFloat32;
    call.described.op = types::ReduceOp::kSum;
    call.described.count = std::max<size_t>(1, all / sizeof(float));
    settle(engines::cuda::put_by_nccl(shared_.nccl.call, call, rank_, shared_.ranks, comm_),
           schedule::name_of(collective));
  }

  Status make() {
    const Nccl& nccl = shared_.nccl;
    drivers::nccl::NcclConfig config = nccl.config();
    NcclResult result =
        nccl.call.ncclCommInitRankConfig(&comm_, shared_.ranks, shared_.id, rank_, &config);
    while (comm_ != nullptr && result == drivers::nccl::kInProgress && !shared_.has_none.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      NcclResult state = drivers::nccl::kSuccess;
      result = nccl.call.ncclCommGetAsyncError(comm_, &state);
      if (result == drivers::nccl::kSuccess) result = state;
    }
    return nccl.check(result, "ncclCommInitRankConfig", comm_);
  }

  void settle(NcclResult result, const char* function) {
    while (result == drivers::nccl::kInProgress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      must(shared_.nccl.check(shared_.nccl.call.ncclCommGetAsyncError(comm_, &result), function));
    }
    must(shared_.nccl.check(result, function, comm_));
  }

  Shared& shared_;
  const int rank_;
  const PrimaryContext context_;
  const ContextScope scope_;
  const CudaStream stream_;
  const DeviceMemory send_, recv_;
  NcclComm comm_ = nullptr;
  Status made_;
};

}  // namespace

Result<std::vector<select::VendorTimes>> measure_nccl(const std::string& library, int repeats) {
  const Result<Cuda>& cuda = find();
  if (!cuda.ok()) return cuda.status();
  const Result<Nccl>& nccl = drivers::nccl::find(library);
  if (!nccl.ok()) return nccl.status();
  const int ranks = cuda.value().devices();
  if (ranks < 2) return Status::unsupported("there is one device only");
  std::barrier turn(ranks);
  Shared shared{cuda.value(), nccl.value(), {}, ranks, repeats, turn};
  Status made =
      nccl.value().check(nccl.value().call.ncclGetUniqueId(&shared.id), "ncclGetUniqueId");
  if (!made.ok()) return made;
  std::vector<select::VendorTimes> found;
  const auto measure = [&](int number) {
    Rank rank(shared, number);
    if (number == 0) made = rank.made();
    turn.arrive_and_wait();
    if (shared.has_none.load()) return;
    for (const Collective collective : kMeasured) {
      select::VendorTimes times{schedule::name_of(collective), ranks, {}};
      for (const size_t bytes : kBytes) {
        times.calls.push_back({static_cast<double>(bytes), rank.ns(collective, bytes)});
      }
      if (number == 0) found.push_back(std::move(times));
    }
    turn.arrive_and_wait();
  };
  std::vector<std::thread> others;
  for (int rank = 1; rank < ranks; ++rank) others.emplace_back(measure, rank);
  measure(0);
  for (std::thread& other : others) other.join();
  if (!made.ok()) return made;
  if (shared.has_none.load()) return Status::unsupported("some device has no part in it");
  return found;
}

}  // namespace tutti::cli
