#include "perf/collectives/measure.h"

#include <algorithm>

#include "perf/collectives/error.h"
#include "perf/collectives/machine.h"

namespace tutti::perf {
namespace {

constexpr size_t kRingBytes = size_t{4} << 20;  // of the library, by default
// Many ranks on few processors are slow, and a sweep should begin soon.
constexpr double kWarmUpUs = 2e6;
constexpr double kWarmUpOneUs = 1e5;

}  // namespace

size_t warm_up_calls(size_t bytes, int ranks) {
  const size_t block = std::max<size_t>(bytes / static_cast<size_t>(ranks), 1);
  return std::min((2 * kRingBytes + block - 1) / block, kMostWarmUpCalls);
}

Measurement::Measurement(const RankContext& context, const Subgroup& group,
                         const PerfOptions& options)
    : context_(context),
      group_(group),
      options_(options),
      resident_at_start_(resident_bytes()),
      communicator_(context, group, options.communicator),
      resident_with_communicator_(resident_bytes()),
      workload_(communicator_, options),
      resident_with_buffers_(resident_bytes()) {
  if (options.open_baseline) nccl_ = options.open_baseline(context, group, communicator_);
}

size_t Measurement::warm_up(const std::vector<Case>& cases) {
  if (options_.warmup == 0 || cases.empty()) return 0;
  std::vector<Case> sizes;
  for (const Case& one : cases) {
    // Where one call is two passes the warm-up of its line does it, without another filling.
    if (warm_up_calls(one.bytes, context_.ranks) <= 1) continue;
    if (one.type == cases[0].type && one.op == cases[0].op) sizes.push_back(one);
  }
  // Long calls touch the most in the least time.
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const Case& a, const Case& b) { return a.bytes > b.bytes; });
  size_t calls = 0;
  double left_us = kWarmUpUs;
  for (const Case& one : sizes) {
    if (left_us > 0) calls += warm_up_one(one, left_us);
  }
  return calls;
}

/// Takes the slowest rank's time off `left_us`.
size_t Measurement::warm_up_one(const Case& one, double& left_us) {
  const PreparedCase prepared(options_, group_, one, false);
  workload_.prepare(prepared);
  const ReadyOperation operation(communicator_, prepared.operation);
  const auto call = [&](size_t iteration) {
    communicator_.check(enqueue(operation.get(), workload_.send(prepared, iteration),
                                workload_.recv(prepared, iteration), communicator_),
                        "warm-up");
  };
  const size_t wanted = warm_up_calls(one.bytes, context_.ranks);
  const double enough_us = left_us - std::min(left_us, kWarmUpOneUs);
  size_t calls = 0;
  for (size_t batch = 1; calls < wanted && left_us > enough_us; batch *= 2) {
    LoopShape loop;
    loop.iterations = std::min(batch, wanted - calls);
    const LoopTime own = timed_loop(context_, loop, call, [&] { communicator_.synchronize(); });
    left_us -= context_.board.max(context_.rank, own.us * static_cast<double>(loop.iterations));
    calls += loop.iterations;
  }
  return calls;
}

/// Before the first call since finish(): what follows is timed by the stream, too.
void Measurement::begin_on_device() {
  if (communicator_.device() == nullptr || times_device_) return;
  communicator_.device()->begin_timing();
  times_device_ = true;
}

void Measurement::finish() {
  if (times_device_) device_us_ += communicator_.device()->end_timing_us();
  times_device_ = false;
  communicator_.synchronize();
}

/// The time that the library expects of one call, before it is run.
double Measurement::predict(const PreparedCase& one, const Operation& operation) {
  uint64_t nanoseconds = 0;
  communicator_.check(tuttiGroupStart(), "tuttiGroupStart");
  communicator_.check(
      enqueue(operation, workload_.send(one, 0), workload_.recv(one, 0), communicator_),
      "the predicted call");
  communicator_.check(tuttiGroupSimulateEnd(&nanoseconds), "tuttiGroupSimulateEnd");
  return static_cast<double>(nanoseconds) / 1e3;
}

/// This rank's time of one iteration.
LoopTime Measurement::timed(const PreparedCase& one, const Operation& operation, Cell& cell) {
  const Blocking blocking = options_.blocking;
  const char* name = traits_of(options_.collective).name;
  const auto enqueue_one = [&](size_t iteration) {
    communicator_.check(enqueue(operation, workload_.send(one, iteration),
                                workload_.recv(one, iteration), communicator_),
                        name);
  };
  const auto finish = [&] { this->finish(); };
  const auto call = [&](size_t iteration) {
    begin_on_device();
    if (options_.aggregate == 1) {
      enqueue_one(iteration);
    } else {
      communicator_.check(tuttiGroupStart(), "tuttiGroupStart");
      for (size_t i = 0; i < options_.aggregate; ++i)
        enqueue_one(iteration * options_.aggregate + i);
      communicator_.check(tuttiGroupEnd(), "tuttiGroupEnd");
    }
    if (blocking != Blocking::kNo) finish();
    if (blocking == Blocking::kWaitAndBarrier) context_.board.barrier();
  };

  LoopShape loop;
  loop.stepped = options_.stepped;
  if (options_.fresh) {
    loop.before_step = [&](size_t iteration) {
      for (size_t i = 0; i < options_.aggregate; ++i)
        workload_.renew(one, iteration * options_.aggregate + i);
    };
  }
  loop.splits = options_.report.processor_time;
  loop.iterations = options_.warmup;
  if (loop.iterations > 0) timed_loop(context_, loop, call, finish);
  loop.iterations = options_.iterations;
  if (loop.iterations == 0)
    loop.iterations = calibrate(context_, kDefaultRoundUs, loop, call, finish);
  cell.iterations = loop.iterations;
  device_us_ = 0;
  if (!options_.report.samples()) return timed_loop(context_, loop, call, finish);
  std::vector<double> samples(std::min(loop.iterations, kMaxSamples));
  loop.samples = samples;
  const LoopTime own = timed_loop(context_, loop, call, finish);
  for (double& us : samples) us /= static_cast<double>(options_.aggregate);
  cell.times = gather(samples);
  return own;
}

/// Collective: the times of all ranks.
IterationTimes Measurement::gather(const std::vector<double>& own) const {
  IterationTimes times;
  times.of_rank_us = context_.board.gather_samples(context_.rank, own);
  times.slowest_us.resize(own.size());
  for (const std::vector<double>& rank_us : times.of_rank_us) {
    for (size_t i = 0; i < own.size(); ++i) {
      times.slowest_us[i] = std::max(times.slowest_us[i], rank_us[i]);
    }
  }
  const std::span<const double> all = times.slowest_us;
  times.all = summarize(all);
  times.kept = summarize(all.subspan(std::min(options_.report.skipped_samples, all.size() - 1)));
  return times;
}

/// Collective: what is wrong on any rank. Ends with the first wrong call.
std::optional<Finding> Measurement::check(const PreparedCase& one, const Operation& operation) {
  for (size_t i = 0; i < options_.checks; ++i) {
    workload_.refill(one, i);
    context_.board.barrier();
    communicator_.check(
        enqueue(operation, workload_.send(one, i), workload_.recv(one, i), communicator_),
        "the checked call");
    communicator_.synchronize();
    const auto& fault = options_.fault;
    if (fault && fault->rank == context_.rank) workload_.spoil(one, i, fault->element);
    const auto found = first_finding(context_, workload_.check(one, i));
    if (found) return found;
  }
  return std::nullopt;
}

double Measurement::over_ranks(double own_us) const {
  const std::vector<double> all = context_.board.exchange(context_.rank, own_us);
  double sum = 0;
  for (const double us : all) sum += us;
  switch (options_.average) {
    case Average::kRank0:
      return all[0];
    case Average::kMean:
      return sum / static_cast<double>(all.size());
    case Average::kMin:
      return *std::min_element(all.begin(), all.end());
    case Average::kMax:
      return *std::max_element(all.begin(), all.end());
  }
  return all[0];
}

// NCCL's call must do what Tutti's does, or its time says nothing.
void Measurement::check_nccl(const PreparedCase& one, const Operation& operation) {
  workload_.refill(one, 0);
  context_.board.barrier();
  nccl_->enqueue(operation, workload_.send(one, 0), workload_.recv(one, 0));
  nccl_->synchronize();
  if (first_finding(context_, workload_.check(one, 0))) {
    throw PerfError("--vs nccl: NCCL's result of " +
                        std::string(traits_of(options_.collective).name) + " is wrong",
                    kExitResult);
  }
}

/// Collective. Rounds of both in turns, each first in every other one.
void Measurement::take_turns(const PreparedCase& one, const Operation& operation, Cell& cell) {
  if (nccl_ == nullptr || !nccl_->has(operation, one.in_place)) return;
  if (options_.checks > 0) check_nccl(one, operation);
  const LoopShape loop{.iterations = cell.iterations};
  const auto slowest = [&](double own_us) { return context_.board.max(context_.rank, own_us); };
  const auto ours = [&] {
    const auto call = [&](size_t i) {
      communicator_.check(
          enqueue(operation, workload_.send(one, i), workload_.recv(one, i), communicator_),
          "a call beside NCCL");
    };
    return slowest(timed_loop(context_, loop, call, [&] { communicator_.synchronize(); }).us);
  };
  const auto theirs = [&] {
    const auto call = [&](size_t i) {
      nccl_->enqueue(operation, workload_.send(one, i), workload_.recv(one, i));
    };
    return slowest(timed_loop(context_, loop, call, [&] { nccl_->synchronize(); }).us);
  };
  std::vector<double> own_us, nccl_us;
  for (size_t round = 0; round < options_.versus.rounds; ++round) {
    if (round % 2 == 0) own_us.push_back(ours());
    nccl_us.push_back(theirs());
    if (round % 2 != 0) own_us.push_back(ours());
  }
  cell.nccl_us = summarize(nccl_us).p50;
  cell.nccl_ratio = cell.nccl_us / std::max(summarize(own_us).p50, 1e-3);
}

MemoryUse Measurement::memory() const {
  const double now = resident_bytes();
  const auto grown = [&](double from, double to) {
    return context_.board.max(context_.rank, std::max(to - from, 0.0));
  };
  return {grown(resident_at_start_, resident_with_communicator_),
          grown(resident_with_communicator_, resident_with_buffers_),
          grown(resident_with_buffers_, now)};
}

Cell Measurement::run(const PreparedCase& one) {
  Cell cell;
  workload_.prepare(one);
  const ReadyOperation operation(communicator_, one.operation);
  if (options_.report.predicted) {
    cell.predicted_us = context_.board.exchange(context_.rank, predict(one, operation.get()))[0];
  }
  const LoopTime own = timed(one, operation.get(), cell);
  const auto calls = static_cast<double>(options_.aggregate);
  cell.us = over_ranks(own.us / calls);
  if (options_.report.processor_time) cell.queued_us = over_ranks(own.queued_us / calls);
  if (communicator_.device() != nullptr) {
    cell.device_us = over_ranks(device_us_ / (calls * static_cast<double>(cell.iterations)));
  }
  take_turns(one, operation.get(), cell);
  const double elements = algorithm_elements(options_.collective, one.shape, group_.ranks);
  const double bytes = elements * static_cast<double>(one.type.bytes);
  cell.algorithm_bandwidth = bytes / std::max(cell.us, 1e-3) / 1e3;
  cell.bus_bandwidth = cell.algorithm_bandwidth * bus_factor(options_.collective, group_.ranks);
  if (options_.checks > 0) {
    cell.wrong = check(one, operation.get());
    cell.checked = one.shape.largest_count > 0;
  }
  return cell;
}

}  // namespace tutti::perf
