#include "src/engines/cuda/captured_calls.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"
#include "src/exec/pairs.h"
#include "src/plan/walk.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;
using drivers::cuda::CUstream;

namespace {

/// No value of a plan reaches it, and the cyclic comparison still takes it for greater.
constexpr uint64_t kBeyondAll = uint64_t{1} << 62;

DeviceAddresses with_counters(DeviceAddresses addresses, const CapturedPages& pages) {
  for (size_t rank = 0; rank < pages.ranks(); ++rank) {
    addresses.counters[0][rank] = pages.word(rank, CapturedWord::kProgress);
    addresses.counters[1][rank] = pages.word(rank, CapturedWord::kSecondProgress);
  }
  return addresses;
}

std::vector<exec::TransferLog::CalledEntry*> transfers_of_all(const CapturedPages& pages) {
  std::vector<exec::TransferLog::CalledEntry*> all;
  for (size_t rank = 0; rank < pages.ranks(); ++rank) all.push_back(pages.transfers(rank));
  return all;
}

uint64_t timeout_until(uint64_t deadline_ns) {
  const uint64_t now_ns = monotonic_ns();
  if (deadline_ns == kNoDeadline) return kNoDeadline;
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

}  // namespace

/// One call in a graph, which keeps it.
struct CapturedCalls::Call {
  std::shared_ptr<CapturedCalls> of;
  uint32_t signature = 0;
  std::optional<diagnosis::DescribedCall> described;  // of a call of all ranks
  std::vector<exec::Transfer> transfers;
  std::vector<uint32_t> slots;  // of the transfers' first pieces
  uint64_t timeout_ns = 0;
  std::string what;
};

CapturedCalls::CapturedCalls(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                             const exec::DeviceRankOptions& options, Parts parts)
    : cuda_(cuda),
      context_(context),
      rank_(static_cast<size_t>(options.rank)),
      name_of_(options.name_of),
      pages_(std::move(parts.pages)),
      kernels_(std::move(parts.kernels)),
      addresses_(with_counters(std::move(parts.addresses), pages_)),
      pairs_(pages_.with_words(std::move(parts.slots))),
      sides_(cuda),
      owner_(std::move(parts.owner)),
      book_(transfers_of_all(pages_), options.rank, pairs_.slots.pair_bytes(), options.name_of) {}

CapturedCalls::~CapturedCalls() {
  Sentry::get().forget(*this);
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (ring_ != nullptr) ring_->end();
  pages_.end();
  sides_.clear();
  kernels_.reset();
}

void CapturedCalls::leave(std::unique_ptr<DeviceRing> ring) {
  const bool is_kept = weak_from_this().use_count() > 1;
  {
    const std::lock_guard lock(mutex_);
    owner_.reset();
    ring_ = std::move(ring);
  }
  if (is_kept) (void)Sentry::get().watch(*this);
}

// From there on the graph keeps the call.
Status CapturedCalls::begin_in_graph(const exec::StreamPlace& where, std::shared_ptr<Call> call) {
  call->of = shared_from_this();
  auto* const data = call.get();
  auto* const graph = static_cast<drivers::cuda::CUgraph>(where.graph);
  if (Status s = drivers::cuda::keep_with(cuda_, graph, std::move(call)); !s.ok()) return s;
  const auto run = [](void* begun) {
    const Call& one = *static_cast<const Call*>(begun);
    one.of->begin(one);
  };
  return drivers::cuda::call_on_host(cuda_, static_cast<CUstream>(where.stream), run, data);
}

Status CapturedCalls::put(exec::StreamedCall& call, plan::Cursors cursors) {
  auto kept = std::make_shared<Call>();
  kept->signature = call.call.signature;
  kept->described = call.described;
  kept->timeout_ns = timeout_until(call.call.deadline_ns);
  kept->what = call.call.what;
  if (Status s = begin_in_graph(call.where, std::move(kept)); !s.ok()) return s;
  auto* const stream = static_cast<CUstream>(call.where.stream);
  const auto rank = static_cast<uint32_t>(rank_), ranks = static_cast<uint32_t>(pages_.ranks());
  if (Status s = put_steps(stream, steps_before(rank, ranks), false); !s.ok()) return s;
  if (Status s = put_plan(stream, call, cursors); !s.ok()) return s;
  return put_steps(stream, steps_behind(rank, ranks, call.plan->lanes.size()), true);
}

// The order of calls has made all streams wait for what is before, and what comes behind for all of
// them (exec::CallOrder); here they wait for each other.
Status CapturedCalls::put(exec::StreamedTransfers& call) {
  if (Status s = exec::check_own_transfers(call.transfers, static_cast<int>(rank_)); !s.ok()) {
    return s;
  }
  const Result<std::shared_ptr<CapturedPairs>> pairs = pairs_of(call.where.front());
  if (!pairs.ok()) return pairs.status();
  auto kept = std::make_shared<Call>();
  kept->signature = call.call.signature;
  kept->described = call.described;
  kept->transfers.assign(call.transfers.begin(), call.transfers.end());
  kept->slots = pairs.value()->first_slots(call.transfers);
  kept->timeout_ns = timeout_until(call.call.deadline_ns);
  kept->what = call.call.what;
  auto* const stream = static_cast<CUstream>(call.where.front().stream);
  const auto others = std::span(call.where).subspan(1);
  for (const exec::StreamPlace& other : others) {
    if (Status s = follow(stream, static_cast<CUstream>(other.stream)); !s.ok()) return s;
  }
  if (Status s = begin_in_graph(call.where.front(), std::move(kept)); !s.ok()) return s;
  const Result<SideStream*> side = sides_.find(stream, call.where.front().capture, 1);
  if (!side.ok()) return side.status();
  const PairCall put{.stream = stream, .side = side.value()};
  if (Status s = pairs.value()->put(put, call.transfers); !s.ok()) return s;
  if (Status s = pairs.value()->finish(pages_.over(rank_), 1); !s.ok()) return s;
  for (const exec::StreamPlace& other : others) {
    if (Status s = follow(static_cast<CUstream>(other.stream), stream); !s.ok()) return s;
  }
  return {};
}

// All that is put into `behind` from now on comes behind what `before` holds.
Status CapturedCalls::follow(CUstream behind, CUstream before) const {
  if (behind == before) return {};
  const Result<drivers::cuda::CudaEvent> there = [&] {
    const drivers::cuda::UncapturedScope uncaptured(cuda_);
    return drivers::cuda::CudaEvent::create(cuda_);
  }();
  if (!there.ok()) return there.status();
  if (Status s = there.value().record(before); !s.ok()) return s;
  return there.value().make_wait(behind);
}

// Each capture counts its pieces by itself, so that a rank may give one up and begin anew.
Result<std::shared_ptr<CapturedPairs>> CapturedCalls::pairs_of(const exec::StreamPlace& where) {
  std::erase_if(captures_, [](const auto& one) { return one.second.expired(); });
  for (const auto& [id, known] : captures_) {
    if (id != where.capture) continue;
    if (std::shared_ptr<CapturedPairs> pairs = known.lock()) return pairs;
  }
  auto made = std::make_shared<CapturedPairs>(&cuda_, pairs_);
  auto* const graph = static_cast<drivers::cuda::CUgraph>(where.graph);
  if (Status s = drivers::cuda::keep_with(cuda_, graph, made); !s.ok()) return s;
  captures_.emplace_back(where.capture, made);
  return made;
}

Status CapturedCalls::put_steps(CUstream stream, const CapturedSteps& steps, bool ends) {
  drivers::cuda::MemoryOps words;
  for (const CapturedStep& step : steps) {
    const CUdeviceptr word = pages_.word(step.rank, step.word);
    if (step.waits) {
      words.wait_at_least_64(word, step.value);
    } else {
      words.write_64(word, step.value);
    }
  }
  if (ends) words.write_64(pages_.over(rank_), 1);
  return words.submit(cuda_, stream);
}

Status CapturedCalls::put_plan(CUstream stream, exec::StreamedCall& call, plan::Cursors& cursors) {
  StreamMachine machine(&cuda_, kernels_.get(), addresses_);
  plan::Walk<StreamMachine> walk(plan::Engine::kDevice);
  StreamCall put{reinterpret_cast<CUdeviceptr>(call.call.send),
                 reinterpret_cast<CUdeviceptr>(call.call.recv), stream,
                 call.factor ? &*call.factor : nullptr};
  const Result<SideStream*> side = sides_.find(stream, call.where.capture, call.plan->lanes.size());
  if (!side.ok()) return side.status();
  put.side = side.value();
  put.captured = true;
  machine.start(*call.plan, put);
  walk.start(*call.plan, cursors);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk.advance(machine);
  if (progress != plan::Progress::kDone) {
    return machine.status().ok() ? Status::internal_error("a stream's walk stands still")
                                 : machine.status();
  }
  // The last word of a plan says nothing here: it is written once more.
  return machine.finish(pages_.over(rank_), 0);
}

// It may neither use the device nor wait. Neither does a failure of the communicator.
void CapturedCalls::begin(const Call& call) {
  {
    const std::lock_guard lock(mutex_);
    page().over.value.store(0, std::memory_order_relaxed);
    has_run_.store(true, std::memory_order_relaxed);
    if (call.described) ++number_;
    run_ = {call.described ? number_ : 0, &call, deadline_after(call.timeout_ns)};
    if (owner_ && owner_->failure().ok()) {
      if (const std::optional<CapturedFinding> found = compare(call)) {
        owner_->fail(found->status, found->cause);
      }
    }
  }
  Sentry::get().wake();
}

// A peer that has found a difference lets this rank's stream go on, to the run behind.
std::optional<CapturedFinding> CapturedCalls::compare(const Call& call) {
  if (call.described) {
    announce(call);
    if (std::optional<CapturedFinding> found = find_in_last_runs(2)) return found;
  }
  const auto part_of = call.described ? std::optional(call.described->collective) : std::nullopt;
  auto found = book_.announce(call.transfers, {.part_of = part_of, .slots = call.slots});
  if (!found) return std::nullopt;
  return CapturedFinding{std::move(found->status), {found->peer, static_cast<int>(rank_)}};
}

// The rank that is second to write its run finds the first one's: each writes before it looks.
void CapturedCalls::announce(const Call& call) {
  const uint32_t place = number_ % CapturedPage::kRuns;
  const diagnosis::DescribedWords words = diagnosis::words_of(*call.described);
  for (size_t i = 0; i < words.size(); ++i) {
    page().described[place].words[i].store(words[i], std::memory_order_relaxed);
  }
  const uint64_t word = uint64_t{number_} << 32 | call.signature;
  page().runs[place].value.store(word, std::memory_order_seq_cst);
  page().last.value.store(number_, std::memory_order_seq_cst);
}

std::optional<CapturedFinding> CapturedCalls::find_difference(uint32_t number) const {
  const uint32_t place = number % CapturedPage::kRuns;
  const uint64_t word = page().runs[place].value.load(std::memory_order_relaxed);
  for (size_t peer = 0; peer < pages_.ranks(); ++peer) {
    if (peer == rank_) continue;
    const uint64_t theirs = pages_.page(peer).runs[place].value.load(std::memory_order_seq_cst);
    if (theirs == word || theirs >> 32 != number) continue;
    return describe_difference(number, peer);
  }
  return std::nullopt;
}

std::optional<CapturedFinding> CapturedCalls::find_in_last_runs(uint32_t most) const {
  for (uint32_t number = number_; number > 0 && number_ - number < most; --number) {
    if (std::optional<CapturedFinding> found = find_difference(number)) return found;
  }
  return std::nullopt;
}

std::optional<CapturedFinding> CapturedCalls::find_recent_difference() {
  const std::lock_guard lock(mutex_);
  if (auto run = find_in_last_runs(CapturedPage::kRuns)) return run;
  auto found = book_.find_recent();
  if (!found) return std::nullopt;
  return CapturedFinding{std::move(found->status), {found->peer, static_cast<int>(rank_)}};
}

CapturedFinding CapturedCalls::describe_difference(uint32_t number, size_t peer) const {
  const uint32_t place = number % CapturedPage::kRuns;
  const auto read = [&](size_t rank) {
    diagnosis::DescribedWords words;
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = pages_.page(rank).described[place].words[i].load(std::memory_order_relaxed);
    }
    return diagnosis::read_call(words);
  };
  const auto own = read(rank_), its = read(peer);
  const std::string self = name_of_(static_cast<int>(rank_));
  const std::string other = name_of_(static_cast<int>(peer));
  std::optional<std::string> text;
  if (own && its) text = diagnosis::compare_text(self, *own, other, *its);
  Status status =
      Status::invalid_usage("run " + std::to_string(number) + " of calls in graphs differs: " +
                            text.value_or(self + " and " + other + " run different calls"));
  return {std::move(status), {static_cast<int>(peer), static_cast<int>(rank_)}};
}

std::optional<CapturedFinding> CapturedCalls::heed_deadline() const {
  if (monotonic_ns() <= run_->deadline_ns) return std::nullopt;
  int late = book_.find_late(run_->call->transfers).value_or(-1);
  for (size_t rank = 0; rank < pages_.ranks() && late < 0; ++rank) {
    const uint64_t last = pages_.page(rank).last.value.load(std::memory_order_acquire);
    if (last < run_->number) late = static_cast<int>(rank);
  }
  const std::string self = name_of_(static_cast<int>(rank_));
  Status status =
      Status::timeout(run_->call->what + " in a graph on " + self + " passed its deadline: " +
                      (late >= 0 ? name_of_(late) + " has not come to this run of its graph"
                                 : "all ranks have begun it, but some stream is held up"));
  return CapturedFinding{std::move(status), {late >= 0 ? late : static_cast<int>(rank_), -1}};
}

void CapturedCalls::let_go() const {
  for (size_t rank = 0; rank < pages_.ranks(); ++rank) {
    if (rank == rank_) continue;
    for (CapturedPage::SharedLine& word : pages_.page(rank).words) {
      word.value.store(kBeyondAll, std::memory_order_release);
    }
    CapturedPairWords& pair = pages_.pair(rank_, rank);
    for (auto* const words : {&pair.full, &pair.empty}) {
      for (CapturedPage::SharedLine& word : *words) {
        word.value.store(kBeyondAll, std::memory_order_release);
      }
    }
  }
}

bool CapturedCalls::look() {
  const std::lock_guard lock(mutex_);
  if (run_ && page().over.value.load(std::memory_order_acquire) == 1) run_.reset();
  if (!run_) return false;
  if (owner_ && owner_->failure().ok()) {
    if (const auto late = heed_deadline()) owner_->fail(late->status, late->cause);
    return true;
  }
  if (owner_) owner_->publish();
  let_go();
  return true;
}

}  // namespace tutti::engines::cuda
