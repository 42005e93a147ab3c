#include "src/engines/cuda/device_rank.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/thread.h"
#include "src/drivers/cuda/context.h"
#include "src/engines/cuda/ring_parts.h"

namespace tutti::engines::cuda {

using streams::Watchdog;

namespace {

constexpr std::string_view kFolds = "folds", kFailed = "failed ";

/// The kernels, if all ranks have them: the first rank's reason if one has not, kUnsupported. A
/// rank that could not load what its device may well take is an error of all.
Result<FoldKernels> load_kernels(const drivers::cuda::Cuda& cuda,
                                 const exec::DeviceRankOptions& options) {
  Result<FoldKernels> mine = FoldKernels::load(cuda, {options.least_ctas, options.most_ctas});
  constexpr size_t kMostBytes = 400;  // of an exchange
  const bool failed = !mine.ok() && mine.status().code() != Code::kUnsupported;
  const std::string text =
      mine.ok() ? std::string(kFolds)
                : (failed ? std::string(kFailed) : "") + std::string(mine.status().message());
  const auto texts = options.exchange(text.substr(0, kMostBytes));
  if (!texts.ok()) return texts.status();
  Status lacks;
  for (size_t rank = 0; rank < texts.value().size(); ++rank) {
    const std::string& said = texts.value()[rank];
    const std::string name = options.name_of(static_cast<int>(rank)) + ": ";
    if (said.starts_with(kFailed)) {
      return Status(Code::kSystemError, name + said.substr(kFailed.size()));
    }
    if (said != kFolds && lacks.ok()) lacks = Status::unsupported(name + said);
  }
  if (!lacks.ok()) return lacks;
  return mine;
}

/// The rings behind one multicast address, if all ranks can. Kernels are those of all ranks.
Status share_places(const drivers::cuda::Cuda& cuda, const exec::DeviceRankOptions& options,
                    DeviceRing& ring, Result<FoldKernels>& kernels) {
  Status ready = kernels.status();
  if (ready.ok() && options.multicast != MulticastWish::kOff) {
    const Result<drivers::cuda::DeviceFacts> facts =
        drivers::cuda::DeviceFacts::read(cuda, ring.device());
    ready = facts.ok() ? drivers::cuda::check_multicast(cuda, facts.value()) : facts.status();
    if (ready.ok()) ready = kernels.value().load_multicast(cuda);
  }
  return ring.share_places(options, ready);
}

}  // namespace

Result<std::unique_ptr<exec::DeviceRank>> CudaDeviceRank::open(const drivers::cuda::Cuda& cuda,
                                                               drivers::cuda::CUdevice device,
                                                               drivers::cuda::CUcontext context,
                                                               exec::DeviceRankOptions options) {
  const auto& mine = options.arenas[static_cast<size_t>(options.rank)];
  for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
    mine.device().set_progress(lane, kFirstProgress);
  }
  Result<std::unique_ptr<DeviceRing>> ring = DeviceRing::open(cuda, device, options);
  if (!ring.ok()) return ring.status();
  Result<FoldKernels> kernels = load_kernels(cuda, options);
  if (!kernels.ok() && kernels.status().code() != Code::kUnsupported) return kernels.status();
  Status shared = share_places(cuda, options, *ring.value(), kernels);
  if (!shared.ok()) return shared;
  Result<CapturedPages> pages = CapturedPages::open(cuda, options);
  if (!pages.ok()) return pages.status();
  Result<drivers::cuda::CudaEvent> beside = drivers::cuda::CudaEvent::create(cuda);
  if (!beside.ok()) return beside.status();
  PairAddresses pairs = pages.value().with_places(ring.value()->pair_addresses());
  std::unique_ptr<CudaDeviceRank> made(
      new CudaDeviceRank(cuda, context, std::move(options),
                         {std::move(ring).value(), std::move(kernels), std::move(pairs)}));
  made->beside_.emplace(std::move(beside).value());
  if (Status status = made->take_graphs(std::move(pages).value()); !status.ok()) return status;
  if (Status status = made->open_fused(); !status.ok()) return status;
  if (Status status = made->open_vendor(); !status.ok()) return status;
  if (Status status = Watchdog::get().watch(made->calls_); !status.ok()) return status;
  return std::unique_ptr<exec::DeviceRank>(std::move(made));
}

Status CudaDeviceRank::take_graphs(CapturedPages pages) {
  captured_ = std::make_shared<CapturedCalls>(
      cuda_, context_, options_,
      CapturedCalls::Parts{std::move(pages), calls_.owner(), kernels_, addresses(),
                           ring_->captured_slots()});
  calls_.compare_also(captured_->comparison(), captured_->captures());
  return captured_->watch();
}

CudaDeviceRank::CudaDeviceRank(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                               exec::DeviceRankOptions options, RankParts parts)
    : cuda_(cuda),
      options_(std::move(options)),
      context_(context),
      ring_(std::move(parts.ring)),
      folds_(parts.kernels.ok() ? Status() : parts.kernels.status()),
      kernels_(parts.kernels.ok() ? std::make_shared<FoldKernels>(std::move(parts.kernels).value())
                                  : nullptr),
      machine_(&cuda, kernels_.get(), with_parts(ring_->addresses(), options_.ring_bytes)),
      walk_(plan::Engine::kDevice),
      cursors_(first_cursors(options_.ring_bytes)),
      sides_(cuda),
      pairs_(&cuda, std::move(parts.pairs)),
      calls_(options_, pairs_.slots().pair_bytes()) {}

namespace {

/// Lets go of them in a thread of its own: to unmap memory, or to make the driver forget
/// some, may be to wait for all streams of the device, of which one may wait for a peer that waits
/// for this thread. Returns when it is done, or soon; then the arenas go, whose pages the driver
/// may know for some time more: it has pinned them. Graphs may keep them, too.
void end_elsewhere(std::shared_ptr<CapturedCalls> calls) {
  constexpr auto kPatience = std::chrono::milliseconds(200);
  const auto ended = std::make_shared<std::promise<void>>();
  // A thread that cannot be started leaves them to nobody: they cannot be ended here.
  auto* const kept = new std::shared_ptr<CapturedCalls>(std::move(calls));
  Result<std::thread> thread = start_thread("tutti-unmap", [kept, ended] {
    delete kept;
    ended->set_value();
  });
  if (!thread.ok()) return;
  thread.value().detach();
  ended->get_future().wait_for(kPatience);
}

}  // namespace

// A stream that is held up by anything else keeps the ring: nobody can take from a device what it
// may still use.
CudaDeviceRank::~CudaDeviceRank() {
  constexpr uint64_t kPatienceNs = 10'000'000'000;
  constexpr auto kNap = std::chrono::microseconds(50);
  Watchdog::get().forget(calls_);
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  const auto is_busy = [this] {
    const bool has_calls = calls_.has_calls();
    return captured_->look() || has_calls;
  };
  while (is_busy() && monotonic_ns() < until_ns) std::this_thread::sleep_for(kNap);
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (calls_.has_calls() || !scope.status().ok()) {
    (void)ring_.release();
    (void)new std::shared_ptr<FoldKernels>(kernels_);
    calls_.leak();  // with what they read
    captured_->leave(nullptr);
    if (vendor_ != nullptr) vendor_->leave();
    return;
  }
  sides_.clear();
  engines_ = {};
  fused_.reset();
  kernels_.reset();
  captured_->leave(std::move(ring_));
  if (vendor_ != nullptr) vendor_->leave();
  end_elsewhere(std::move(captured_));
}

DeviceAddresses CudaDeviceRank::addresses() const {
  return with_parts(ring_->addresses(), options_.ring_bytes);
}

exec::RingShape CudaDeviceRank::ring_shape() const { return shape_of(options_.ring_bytes); }

Status CudaDeviceRank::enqueue(exec::StreamedCall call) {
  if (Status failed = options_.failure(); !failed.ok()) return failed;
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (!scope.status().ok()) return scope.status();
  streams::DeviceEngine* const engine = engines_[static_cast<size_t>(call.engine)].get();
  if (engine == nullptr && call.engine != exec::CallEngine::kWalk) {
    return Status::internal_error("this rank has no such engine");
  }
  if (engine == nullptr && call.plan->lanes.size() > exec::kDeviceLanes) {
    return Status::internal_error("a device's plan has too many lanes");
  }
  if (call.where.capture != 0) {
    Status captured = captured_->put(call, first_cursors(options_.ring_bytes));
    if (captured.ok() && engine != nullptr && engine->runs_alone()) calls_.patrol();
    if (captured.ok()) call.over(captured);
    return captured;
  }
  if (Status status = calls_.announce(call); !status.ok()) return status;
  if (engine != nullptr) return enqueue_whole(std::move(call), *engine);
  Status status = start(static_cast<CUstream>(call.where.stream), call);
  if (status.ok()) {
    walk_.start(*call.plan, cursors_);
    plan::Progress progress = plan::Progress::kMoved;
    while (progress == plan::Progress::kMoved) progress = walk_.advance(machine_);
    status = finish(progress, call);
  }
  if (!status.ok()) calls_.fail(status, {options_.rank, -1});
  return status;
}

Status CudaDeviceRank::enqueue(exec::StreamedTransfers call) {
  if (Status failed = options_.failure(); !failed.ok()) return failed;
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (!scope.status().ok()) return scope.status();
  if (call.where.front().capture != 0) {
    Status captured = captured_->put(call);
    if (captured.ok()) call.over(captured);
    return captured;
  }
  auto* const stream = static_cast<CUstream>(call.where.front().stream);
  if (Status status = join(stream, call.where); !status.ok()) return status;
  if (Status status = calls_.announce(call); !status.ok()) return status;
  Status status = put(stream, call);
  if (!status.ok()) calls_.fail(status, {options_.rank, -1});
  return status;
}

// The transfers come behind all that the other streams hold.
Status CudaDeviceRank::join(CUstream stream, const std::vector<exec::StreamPlace>& others) {
  for (const exec::StreamPlace& other : others) {
    auto* const joined = static_cast<CUstream>(other.stream);
    if (joined == stream) continue;
    if (Status status = beside_->record(joined); !status.ok()) return status;
    if (Status status = beside_->make_wait(stream); !status.ok()) return status;
  }
  return {};
}

// All that the other streams get later comes behind the transfers.
Status CudaDeviceRank::let_follow(CUstream stream, const std::vector<exec::StreamPlace>& others) {
  bool recorded = false;
  for (const exec::StreamPlace& other : others) {
    auto* const joined = static_cast<CUstream>(other.stream);
    if (joined == stream) continue;
    if (!std::exchange(recorded, true)) {
      if (Status status = beside_->record(stream); !status.ok()) return status;
    }
    if (Status status = beside_->make_wait(joined); !status.ok()) return status;
  }
  return {};
}

Status CudaDeviceRank::finish(plan::Progress progress, exec::StreamedCall& call) {
  if (progress != plan::Progress::kDone) {
    return machine_.status().ok() ? Status::internal_error("a stream's walk stands still")
                                  : machine_.status();
  }
  const uint64_t place = calls_.next_place();
  if (Status status = machine_.finish(ring_->finished(), place); !status.ok()) return status;
  calls_.keep({.call = {.place = place,
                        .number = calls_.number(),
                        .label = call.label,
                        .what = call.call.what},
               .deadline_ns = call.call.deadline_ns,
               .awaited = machine_.awaited(),
               .over = std::move(call.over),
               .kept = {call.inputs.memory, call.outputs.memory}});
  return {};
}

Status CudaDeviceRank::put(CUstream stream, exec::StreamedTransfers& call) {
  const Result<SideStream*> side = sides_.find(stream, 0, 1);
  if (!side.ok()) return side.status();
  const PairCall put{.stream = stream,
                     .side = side.value(),
                     .engines_alone = options_.engines_alone || call.engines_alone,
                     .bounce = call.bounce,
                     .registered = &call.registered,
                     .kernels = kernels_.get()};
  const std::vector<exec::Transfer> all = exec::all_of(call);
  if (Status status = pairs_.put(put, all); !status.ok()) return status;
  const uint64_t place = calls_.next_place();
  if (Status status = pairs_.finish(ring_->finished(), place); !status.ok()) return status;
  calls_.keep({.call = {.place = place,
                        .number = call.described ? calls_.number() : 0,
                        .label = call.label,
                        .what = call.call.what},
               .deadline_ns = call.call.deadline_ns,
               .pair_awaited = pairs_.awaited(),
               .over = std::move(call.over),
               .kept = {call.registered.kept, nullptr}});
  return let_follow(stream, call.where);
}

bool CudaDeviceRank::look() {
  const bool has_calls = calls_.look();
  return captured_->look() || has_calls;
}

}  // namespace tutti::engines::cuda
