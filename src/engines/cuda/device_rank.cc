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
namespace {

/// Added to a counter's value: no call reaches it, and the cyclic comparison still takes it for
/// greater.
constexpr uint64_t kBeyondAll = uint64_t{1} << 62;

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

std::vector<exec::TransferLog::CalledEntry*> entries_of(
    const std::vector<exec::ArenaView>& arenas) {
  std::vector<exec::TransferLog::CalledEntry*> entries;
  for (const exec::ArenaView& arena : arenas) entries.push_back(arena.device_transfers(0, false));
  return entries;
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
  Result<CapturedPages> pages = CapturedPages::open(cuda, options);
  if (!pages.ok()) return pages.status();
  Result<drivers::cuda::CudaEvent> beside = drivers::cuda::CudaEvent::create(cuda);
  if (!beside.ok()) return beside.status();
  std::unique_ptr<CudaDeviceRank> made(new CudaDeviceRank(
      cuda, context, std::move(options), std::move(ring).value(), std::move(kernels)));
  made->beside_.emplace(std::move(beside).value());
  made->take_graphs(std::move(pages).value());
  if (Status status = Sentry::get().watch(*made); !status.ok()) return status;
  return std::unique_ptr<exec::DeviceRank>(std::move(made));
}

void CudaDeviceRank::take_graphs(CapturedPages pages) {
  CapturedOwner owner;
  owner.failure = [this] { return options_.failure(); };
  owner.fail = [this](Status why, diagnosis::Cause cause) { give_up(std::move(why), cause); };
  owner.publish = [this] { publish_failure(); };
  captured_ = std::make_shared<CapturedCalls>(
      cuda_, context_, options_,
      CapturedCalls::Parts{std::move(pages), std::move(owner), kernels_, addresses(),
                           ring_->captured_slots()});
}

CudaDeviceRank::CudaDeviceRank(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                               exec::DeviceRankOptions options, std::unique_ptr<DeviceRing> ring,
                               Result<FoldKernels> kernels)
    : cuda_(cuda),
      options_(std::move(options)),
      rank_(static_cast<size_t>(options_.rank)),
      context_(context),
      ring_(std::move(ring)),
      folds_(kernels.ok() ? Status() : kernels.status()),
      kernels_(kernels.ok() ? std::make_shared<FoldKernels>(std::move(kernels).value()) : nullptr),
      machine_(&cuda, kernels_.get(), with_parts(ring_->addresses(), options_.ring_bytes)),
      walk_(plan::Engine::kDevice),
      cursors_(first_cursors(options_.ring_bytes)),
      sides_(cuda),
      pairs_(&cuda, ring_->pair_addresses()),
      book_(entries_of(options_.arenas), options_.rank, pairs_.slots().pair_bytes(),
            options_.name_of),
      log_(mine().device_log()),
      watch_(options_) {}

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
  Sentry::get().forget(*this);
  const uint64_t until_ns = monotonic_ns() + kPatienceNs;
  while (advance() && monotonic_ns() < until_ns) std::this_thread::sleep_for(kNap);
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (has_calls() || !scope.status().ok()) {
    (void)ring_.release();
    (void)new std::shared_ptr<FoldKernels>(kernels_);
    const std::lock_guard lock(mutex_);
    (void)new std::deque<Pending>(std::move(pending_));  // with what they read
    return;
  }
  sides_.clear();
  kernels_.reset();
  captured_->leave(std::move(ring_));
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
  if (call.plan->lanes.size() > exec::kDeviceLanes) {
    return Status::internal_error("a device's plan has too many lanes");
  }
  if (call.where.capture != 0) {
    Status captured = captured_->put(call, first_cursors(options_.ring_bytes));
    if (captured.ok()) call.over(captured);
    return captured;
  }
  auto* const stream = static_cast<CUstream>(call.where.stream);
  announce(call.call.signature, call.described);
  if (std::optional<Difference> found = find_difference(number_)) return differ(*std::move(found));
  Status status = put(stream, call);
  if (!status.ok()) give_up(status, {options_.rank, -1});
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
  if (Status status = announce(call); !status.ok()) return status;
  Status status = put(stream, call);
  if (!status.ok()) give_up(status, {options_.rank, -1});
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

Status CudaDeviceRank::put(CUstream stream, exec::StreamedCall& call) {
  if (Status status = start(stream, call); !status.ok()) return status;
  walk_.start(*call.plan, cursors_);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk_.advance(machine_);
  if (progress != plan::Progress::kDone) {
    return machine_.status().ok() ? Status::internal_error("a stream's walk stands still")
                                  : machine_.status();
  }
  const uint64_t place = next_place();
  if (Status status = machine_.finish(ring_->finished(), place); !status.ok()) return status;
  keep({.call = {.place = place, .number = number_, .label = call.label, .what = call.call.what},
        .deadline_ns = call.call.deadline_ns,
        .awaited = machine_.awaited(),
        .over = std::move(call.over),
        .reads = {call.inputs.memory, call.outputs.memory}});
  return {};
}

Status CudaDeviceRank::put(CUstream stream, exec::StreamedTransfers& call) {
  const Result<SideStream*> side = sides_.find(stream, 0, 1);
  if (!side.ok()) return side.status();
  const PairCall put{.stream = stream,
                     .side = side.value(),
                     .engines_alone = options_.engines_alone || call.engines_alone};
  if (Status status = pairs_.put(put, call.transfers); !status.ok()) return status;
  const uint64_t place = next_place();
  if (Status status = pairs_.finish(ring_->finished(), place); !status.ok()) return status;
  keep({.call = {.place = place,
                 .number = call.described ? number_ : 0,
                 .label = call.label,
                 .what = call.call.what},
        .deadline_ns = call.call.deadline_ns,
        .pair_awaited = pairs_.awaited(),
        .over = std::move(call.over)});
  return let_follow(stream, call.where);
}

uint64_t CudaDeviceRank::next_place() {
  const std::lock_guard lock(mutex_);
  return ++place_;
}

// From now on the sentry looks at it.
void CudaDeviceRank::keep(Pending pending) {
  pending.call.ticket = watch_.queue(pending.call.label);
  {
    const std::lock_guard lock(mutex_);
    for (const uint64_t value : pending.awaited) highest_ = std::max(highest_, value);
    pending_.push_back(std::move(pending));
  }
  Sentry::get().wake();
}

void CudaDeviceRank::give_up(Status why, diagnosis::Cause cause) {
  const uint64_t word = diagnosis::Loss{options_.rank, cause}.word();
  mine().device().failed.value.store(word, std::memory_order_release);
  options_.fail(std::move(why), cause);
  Sentry::get().wake();
}

std::vector<CudaDeviceRank::Pending> CudaDeviceRank::take_finished() {
  std::vector<Pending> finished;
  const uint64_t last = mine().device().finished.value.load(std::memory_order_acquire);
  while (!pending_.empty() && pending_.front().call.place <= last) {
    watch_.over(pending_.front().call, options_.failure().ok());
    finished.push_back(std::move(pending_.front()));
    pending_.pop_front();
  }
  return finished;
}

// Of the oldest call: a rank whose counter has not come where the stream waits for it.
std::optional<int> CudaDeviceRank::find_late() const {
  const Pending& call = pending_.front();
  const size_t ranks = options_.arenas.size();
  for (size_t i = 0; i < call.awaited.size(); ++i) {
    const uint64_t at =
        options_.arenas[i % ranks].device().progress_of(static_cast<uint32_t>(i / ranks));
    if (at < call.awaited[i]) return static_cast<int>(i % ranks);
  }
  return find_late_peer(call.pair_awaited);
}

// Of the first step of a group that waits: in a later one a peer may be late because of others.
std::optional<int> CudaDeviceRank::find_late_peer(
    const std::vector<CountedPairs::Awaited>& awaited) const {
  std::optional<int> late;
  uint64_t first = ~uint64_t{0};
  for (const CountedPairs::Awaited& one : awaited) {
    const exec::DevicePair& pair = options_.arenas[one.peer].device_pair(rank_);
    const exec::DevicePage::Word& word = one.sends ? pair.taken : pair.sent;
    const auto step = one.step_at(word.value.load(std::memory_order_acquire));
    if (!step || *step >= first) continue;
    first = *step;
    late = static_cast<int>(one.peer);
  }
  return late;
}

// A rank that finds the difference itself can say which two calls differ.
bool CudaDeviceRank::heed_peers() {
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    const uint64_t word =
        options_.arenas[rank].device().failed.value.load(std::memory_order_acquire);
    const auto loss = diagnosis::Loss::read(word, options_.arenas.size());
    if (rank == rank_ || !loss) continue;
    if (const std::optional<Difference> found = find_recent_difference()) {
      give_up(found->status, {found->peer, options_.rank});
      return true;
    }
    const std::string cause =
        loss->cause.calls_differ() ? ", since calls differ, because of " : " because of ";
    give_up(Status::remote_error(where() + ": " + options_.name_of(static_cast<int>(rank)) +
                                 " gave up" + cause + options_.name_of(loss->cause.rank)),
            loss->cause);
    return true;
  }
  return false;
}

void CudaDeviceRank::heed_deadline() {
  if (monotonic_ns() <= pending_.front().deadline_ns) return;
  std::optional<int> late = find_late();
  if (late) late = watch_.find_culprit(*late);
  give_up(Status::timeout(where() + " passed its deadline: " +
                          (late ? watch_.reason(pending_.front().call.number, *late)
                                : "its own stream is held up by what is before it")),
          {late.value_or(options_.rank), -1});
}

// Of the oldest call that is not over, if there is one.
std::string CudaDeviceRank::where() const {
  const std::string what = pending_.empty() ? "a call" : pending_.front().call.what;
  return what + " on device memory on " + options_.name_of(options_.rank);
}

void CudaDeviceRank::publish_failure() {
  std::atomic<uint64_t>& failed = mine().device().failed.value;
  if (failed.load(std::memory_order_relaxed) != 0) return;
  const diagnosis::Cause known = options_.cause();
  const diagnosis::Cause cause = known.known() ? known : diagnosis::Cause{options_.rank, -1};
  failed.store(diagnosis::Loss{options_.rank, cause}.word(), std::memory_order_release);
}

void CudaDeviceRank::let_go() {
  publish_failure();
  const uint64_t value = highest_ + kBeyondAll;
  for (size_t rank = 0; rank < options_.arenas.size(); ++rank) {
    if (rank == rank_) continue;
    for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
      options_.arenas[rank].device().set_progress(lane, value);
    }
    exec::DevicePair& pair = options_.arenas[rank].device_pair(rank_);
    pair.sent.value.store(kBeyondAll, std::memory_order_release);
    pair.taken.value.store(kBeyondAll, std::memory_order_release);
  }
}

bool CudaDeviceRank::look() { return advance() || awaits_peers(); }

// A peer that lets its own streams go on lets this rank's, too, since they wait for the same words:
// so it has said before why, and this rank knows before its caller finds the stream past a call.
bool CudaDeviceRank::advance() {
  std::vector<Pending> finished;
  bool has_calls = false;
  {
    const std::lock_guard lock(mutex_);
    const bool has_called = place_ > 0 || has_declared_ || captured_->has_run();
    if (!released_ && has_called && options_.failure().ok()) (void)heed_peers();
    finished = take_finished();
    has_calls = !pending_.empty();
    if (has_calls) watch_.look(pending_.front().call, find_late());
    if (has_calls && !released_) {
      if (options_.failure().ok()) heed_deadline();
      released_ = !options_.failure().ok();
    }
    if (has_calls && released_) let_go();
  }
  // Of a failed communicator nobody knows whether its streams were let go on.
  for (const Pending& call : finished) call.over(options_.failure());
  return captured_->look() || has_calls;
}

bool CudaDeviceRank::has_calls() {
  (void)advance();
  const std::lock_guard lock(mutex_);
  return !pending_.empty();
}

}  // namespace tutti::engines::cuda
