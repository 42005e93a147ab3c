#include "tools/cli/tune_multicast.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/multicast.h"
#include "src/drivers/cuda/stream.h"
#include "src/engines/cuda/fold_kernels.h"

namespace tutti::cli {
namespace {

using namespace drivers::cuda;  // NOLINT(build/namespaces)
using engines::cuda::FoldKernels;

constexpr size_t kBytes = size_t{32} << 20;  // of each device
constexpr uint64_t kPlace = 64;              // bytes at whose multiples parts begin

/// A device of the team, which gives back all that it has with its context current.
class Member {
 public:
  Member(const Cuda& cuda, CUdevice device, unsigned devices, size_t bytes)
      : cuda_(cuda), device_(device), team_(cuda, devices, bytes), bytes_(bytes) {}
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  ~Member() {
    if (!context_) return;
    const ContextScope scope(cuda_, context_->get());
    stream_.reset();
    kernels_.reset();
    team_.release();
    memory_.reset();
  }

  Status open() {
    Result<PrimaryContext> context = PrimaryContext::retain(cuda_, device_);
    if (!context.ok()) return context.status();
    context_.emplace(std::move(context).value());
    const ContextScope scope(cuda_, context_->get());
    if (!scope.status().ok()) return scope.status();
    Result<DeviceMemory> memory = DeviceMemory::allocate(cuda_, device_, bytes_);
    if (!memory.ok()) return memory.status();
    memory_.emplace(std::move(memory).value());
    Result<CudaStream> stream = CudaStream::create(cuda_);
    if (!stream.ok()) return stream.status();
    stream_.emplace(std::move(stream).value());
    Result<FoldKernels> kernels = FoldKernels::load(cuda_, {});
    if (!kernels.ok()) return kernels.status();
    kernels_.emplace(std::move(kernels).value());
    return kernels_->load_multicast(cuda_);
  }

  /// Of the first: makes the team's object; of another: imports it.
  Status meet(const Member& first) {
    if (this == &first) return team_.make();
    const Result<Fd> exported = first.team_.export_descriptor();
    if (!exported.ok()) return exported.status();
    return team_.import(exported.value().get());
  }
  Status add() { return team_.add(device_); }
  Status join() { return team_.join(*memory_, device_); }

  Status fold(uint64_t offset, uint64_t bytes) const {
    const ContextScope scope(cuda_, context_->get());
    if (!scope.status().ok()) return scope.status();
    const engines::cuda::MulticastParameters given{team_.address() + offset,
                                                   bytes / engines::cuda::kFoldWordsBytes};
    constexpr auto kType = types::DataType::kFloat32;
    const uint32_t blocks =
        kernels_->blocks_of(kType, bytes / types::size_of(kType), true, engines::cuda::Ctas{});
    return kernels_->launch_shared(kType, types::ReduceOp::kSum, given, blocks, stream_->get());
  }
  Status wait() const {
    const ContextScope scope(cuda_, context_->get());
    return scope.status().ok() ? stream_->synchronize() : scope.status();
  }

 private:
  const Cuda& cuda_;
  const CUdevice device_;
  std::optional<PrimaryContext> context_;
  std::optional<DeviceMemory> memory_;
  MulticastMemory team_;
  const size_t bytes_;
  std::optional<CudaStream> stream_;
  std::optional<FoldKernels> kernels_;
};

using Team = std::vector<std::unique_ptr<Member>>;

/// Every member does each step before any of them does the next one.
template <class Step>
Status all(const Team& team, const Step& step) {
  for (const auto& member : team) {
    if (Status status = step(*member); !status.ok()) return status;
  }
  return {};
}

Result<Team> gather(const Cuda& cuda, size_t& bytes) {
  const int devices = cuda.devices();
  if (devices < 2) return Status::unsupported("there is one device only");
  std::vector<CUdevice> found;
  for (int number = 0; number < devices; ++number) {
    CUdevice device = 0;
    const CUresult result = cuda.call.cuDeviceGet(&device, number);
    if (result != kSuccess) return cuda.error_status(result, "cuDeviceGet");
    const Result<DeviceFacts> facts = DeviceFacts::read(cuda, device);
    if (!facts.ok()) return facts.status();
    if (Status has = check_multicast(cuda, facts.value()); !has.ok()) return has;
    found.push_back(device);
  }
  const auto members = static_cast<unsigned>(devices);
  const Result<size_t> unit = multicast_unit(cuda, members);
  if (!unit.ok()) return unit.status();
  bytes = (kBytes + unit.value() - 1) / unit.value() * unit.value();
  Team team;
  for (const CUdevice device : found) {
    team.push_back(std::make_unique<Member>(cuda, device, members, bytes));
  }
  Status status = all(team, [](Member& one) { return one.open(); });
  if (status.ok()) status = all(team, [&](Member& one) { return one.meet(*team[0]); });
  if (status.ok()) status = all(team, [](Member& one) { return one.add(); });
  if (status.ok()) status = all(team, [](Member& one) { return one.join(); });
  if (!status.ok()) return status;
  return team;
}

/// Of each of some folds in a row, by all members.
Result<double> row_us(const Team& team, size_t bytes) {
  constexpr int kFolds = 20;
  constexpr double kNsPerUs = 1e3;
  const uint64_t part = bytes / team.size() / kPlace * kPlace;
  const uint64_t begin = monotonic_ns();
  for (int i = 0; i < kFolds; ++i) {
    uint64_t offset = 0;
    Status status = all(team, [&](const Member& one) {
      return one.fold(std::exchange(offset, offset + part), part);
    });
    if (!status.ok()) return status;
  }
  if (Status status = all(team, [](const Member& one) { return one.wait(); }); !status.ok()) {
    return status;
  }
  return static_cast<double>(monotonic_ns() - begin) / kNsPerUs / kFolds;
}

}  // namespace

// Of `s` bytes in n devices (n + 1) / n * s cross each link in either direction.
Result<double> measure_multicast(int repeats) {
  const Result<Cuda>& cuda = find();
  if (!cuda.ok()) return cuda.status();
  size_t bytes = 0;
  const Result<Team> team = gather(cuda.value(), bytes);
  if (!team.ok()) return team.status();
  std::vector<double> rows;
  for (int i = 0; i < repeats + 1; ++i) {
    const Result<double> us = row_us(team.value(), bytes);
    if (!us.ok()) return us.status();
    if (i > 0) rows.push_back(us.value());  // the first one warms up
  }
  std::nth_element(rows.begin(), rows.begin() + repeats / 2, rows.end());
  const auto devices = static_cast<double>(team.value().size());
  const double crossing = static_cast<double>(bytes) * (devices + 1) / devices / 1e6;
  return rows[static_cast<size_t>(repeats / 2)] / crossing;
}

}  // namespace tutti::cli
