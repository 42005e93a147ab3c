#include "src/engines/cuda/captured_calls.h"

#include <algorithm>
#include <utility>

#include "src/base/clock.h"
#include "src/drivers/cuda/capture.h"
#include "src/drivers/cuda/context.h"
#include "src/engines/cuda/peer_memory.h"
#include "src/exec/pairs.h"
#include "src/plan/walk.h"

namespace tutti::engines::cuda {

using drivers::cuda::CUdeviceptr;
using drivers::cuda::CUstream;
using streams::CapturedCall;
using streams::CapturedStep;
using streams::CapturedSteps;
using streams::Watchdog;

namespace {

DeviceAddresses with_counters(DeviceAddresses addresses, const CapturedPages& pages) {
  for (size_t rank = 0; rank < pages.ranks(); ++rank) {
    addresses.counters[0][rank] = pages.word(rank, streams::CapturedWord::kProgress);
    addresses.counters[1][rank] = pages.word(rank, streams::CapturedWord::kSecondProgress);
  }
  return addresses;
}

uint64_t timeout_until(uint64_t deadline_ns) {
  const uint64_t now_ns = monotonic_ns();
  if (deadline_ns == kNoDeadline) return kNoDeadline;
  return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

}  // namespace

CapturedCalls::CapturedCalls(const drivers::cuda::Cuda& cuda, drivers::cuda::CUcontext context,
                             const exec::DeviceRankOptions& options, Parts parts)
    : cuda_(cuda),
      context_(context),
      rank_(static_cast<size_t>(options.rank)),
      pages_(std::move(parts.pages)),
      kernels_(std::move(parts.kernels)),
      addresses_(with_counters(std::move(parts.addresses), pages_)),
      pairs_(pages_.with_words(std::move(parts.slots))),
      sides_(cuda),
      runs_({.memory = pages_.memory(),
             .rank = options.rank,
             .pair_bytes = pairs_.slots.pair_bytes(),
             .name_of = options.name_of,
             .owner = std::move(parts.owner),
             .let_go = [this] { let_go(); },
             .report = options.report,
             .runs_alone_so_far = [this] { return runs_alone_so_far(); },
             .ran_late = options.ran_late}) {}

Status CapturedCalls::watch() { return Watchdog::get().watch(runs_); }

CapturedCalls::~CapturedCalls() {
  Watchdog::get().forget(runs_);
  const drivers::cuda::ContextScope scope(cuda_, context_);
  if (ring_ != nullptr) ring_->end();
  pages_.end();
  sides_.clear();
  engines_ = {};
  levels_.reset();
  kernels_.reset();
}

void CapturedCalls::leave(std::unique_ptr<DeviceRing> ring) {
  runs_.abandon();
  let_go();
  ring_ = std::move(ring);
}

// From there on the graph keeps the call.
Status CapturedCalls::begin_in_graph(const exec::StreamPlace& where, CapturedCall call) {
  auto kept = std::make_shared<CallInGraph>(CallInGraph{shared_from_this(), std::move(call)});
  auto* const data = kept.get();
  auto* const graph = static_cast<drivers::cuda::CUgraph>(where.graph);
  if (Status s = drivers::cuda::keep_with(cuda_, graph, std::move(kept)); !s.ok()) return s;
  const auto run = [](void* begun) {
    const CallInGraph& one = *static_cast<const CallInGraph*>(begun);
    one.of->runs_.begin(one.call);
  };
  return drivers::cuda::call_on_host(cuda_, static_cast<CUstream>(where.stream), run, data);
}

void CapturedCalls::let_go() {
  for (const auto& engine : engines_) {
    if (engine != nullptr) engine->let_go();
  }
}

uint64_t CapturedCalls::runs_alone_so_far() const {
  uint64_t sum = 0;
  for (const auto& engine : engines_) {
    if (engine != nullptr) sum += engine->runs_alone_so_far();
  }
  return sum;
}

// Around what an engine puts there stand the steps that are around a plan.
Status CapturedCalls::put(exec::StreamedCall& call, plan::Cursors cursors) {
  runs_.announce_capture({.capture = call.where.capture,
                          .call = &call.described,
                          .signature = call.call.signature,
                          .transfers = {}});
  streams::DeviceEngine* const engine = engines_[static_cast<size_t>(call.engine)].get();
  if (engine != nullptr && engine->runs_alone()) {
    auto* const graph = static_cast<drivers::cuda::CUgraph>(call.where.graph);
    Status kept = drivers::cuda::keep_with(cuda_, graph, shared_from_this());
    return kept.ok() ? engine->capture(call) : kept;
  }
  CapturedCall kept;
  kept.signature = call.call.signature;
  kept.described = call.described;
  kept.timeout_ns = timeout_until(call.call.deadline_ns);
  kept.what = call.call.what;
  if (Status s = begin_in_graph(call.where, std::move(kept)); !s.ok()) return s;
  auto* const stream = static_cast<CUstream>(call.where.stream);
  const auto rank = static_cast<uint32_t>(rank_), ranks = static_cast<uint32_t>(pages_.ranks());
  const size_t lanes = engine == nullptr ? call.plan->lanes.size() : 1;
  if (Status s = put_steps(stream, streams::steps_before(rank, ranks), false); !s.ok()) return s;
  Status status = engine == nullptr ? put_plan(stream, call, cursors) : engine->capture(call);
  if (!status.ok()) return status;
  return put_steps(stream, streams::steps_behind(rank, ranks, lanes), true);
}

// The order of calls has made all streams wait for what is before, and what comes behind for all of
// them (exec::CallOrder); here they wait for each other.
Status CapturedCalls::put(exec::StreamedTransfers& call) {
  if (Status s = exec::check_own_transfers(call.transfers, static_cast<int>(rank_)); !s.ok()) {
    return s;
  }
  const Result<std::shared_ptr<CapturedPairs>> pairs = pairs_of(call.where.front());
  if (!pairs.ok()) return pairs.status();
  runs_.announce_capture({.capture = call.where.front().capture,
                          .call = call.described ? &*call.described : nullptr,
                          .signature = call.call.signature,
                          .transfers = call.transfers});
  CapturedCall kept;
  kept.signature = call.call.signature;
  kept.described = call.described;
  kept.transfers.assign(call.transfers.begin(), call.transfers.end());
  kept.slots = pairs.value()->first_slots(call.transfers);
  kept.marks = call.registered.marks;
  kept.timeout_ns = timeout_until(call.call.deadline_ns);
  kept.what = call.call.what;
  auto* const stream = static_cast<CUstream>(call.where.front().stream);
  const auto others = std::span(call.where).subspan(1);
  for (const exec::StreamPlace& other : others) {
    if (Status s = follow(stream, static_cast<CUstream>(other.stream)); !s.ok()) return s;
  }
  if (Status s = begin_in_graph(call.where.front(), std::move(kept)); !s.ok()) return s;
  const Result<SideStream*> side = sides_.find(stream, call.where.front().capture, 1);
  if (!side.ok()) return side.status();
  if (call.registered.kept != nullptr) {  // registrations may end before the graph
    auto* const graph = static_cast<drivers::cuda::CUgraph>(call.where.front().graph);
    Status s = drivers::cuda::keep_with(cuda_, graph, call.registered.kept);
    if (!s.ok()) return s;
  }
  const PairCall put{.stream = stream,
                     .side = side.value(),
                     .bounce = call.bounce,
                     .registered = &call.registered,
                     .kernels = kernels_.get()};
  if (Status s = pairs.value()->put(put, exec::all_of(call)); !s.ok()) return s;
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

// Registrations may end before the graph.
Status CapturedCalls::keep_read(const exec::StreamedCall& call) const {
  auto* const graph = static_cast<drivers::cuda::CUgraph>(call.where.graph);
  for (const exec::PeerBuffers* const read : {&call.inputs, &call.outputs}) {
    if (read->memory == nullptr) continue;
    if (Status s = drivers::cuda::keep_with(cuda_, graph, read->memory); !s.ok()) return s;
  }
  return {};
}

Status CapturedCalls::put_plan(CUstream stream, exec::StreamedCall& call, plan::Cursors& cursors) {
  if (Status s = keep_read(call); !s.ok()) return s;
  StreamMachine machine(&cuda_, kernels_.get(), addresses_);
  plan::Walk<StreamMachine> walk(plan::Engine::kDevice);
  std::vector<CUdeviceptr> inputs, outputs;
  find_places(call.inputs, inputs);
  find_places(call.outputs, outputs);
  const auto send = reinterpret_cast<CUdeviceptr>(call.call.send);
  const auto recv = reinterpret_cast<CUdeviceptr>(call.call.recv);
  StreamCall put{call.first_copied > 0 ? recv : send,   recv,   stream,
                 call.factor ? &*call.factor : nullptr, inputs, outputs};
  const Result<SideStream*> side = sides_.find(stream, call.where.capture, call.plan->lanes.size());
  if (!side.ok()) return side.status();
  put.side = side.value();
  put.captured = true;
  put.bounce = call.bounce;
  put.levels = levels_.get();
  put.deadline_ns = call.call.deadline_ns;
  put.ctas = {call.least_ctas, call.most_ctas};
  machine.start(*call.plan, put);
  if (Status s = machine.copy_first(recv, send, call.first_copied); !s.ok()) return s;
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

}  // namespace tutti::engines::cuda
