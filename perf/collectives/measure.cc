#include "perf/collectives/measure.h"

#include <algorithm>
#include <vector>

#include "perf/collectives/statistics.h"
#include "perf/collectives/timed_loop.h"

namespace tutti::perf {

Measurement::Measurement(const RankContext& context, const PerfOptions& options)
    : context_(context),
      options_(options),
      communicator_(context, options.communicator),
      workload_(communicator_, options) {}

/// This rank's time of one operation.
double Measurement::timed(const PreparedCase& one, Cell& cell) {
  const Blocking blocking = options_.blocking;
  const auto enqueue_one = [&](size_t iteration) {
    communicator_.check(enqueue(one.operation, workload_.send(one, iteration),
                                workload_.recv(one, iteration), communicator_),
                        traits_of(options_.collective).name);
  };
  const auto wait = [&](bool with_barrier) {
    communicator_.synchronize();
    if (with_barrier) context_.board.barrier();
  };
  const auto call = [&](size_t iteration) {
    if (options_.aggregate == 1) {
      enqueue_one(iteration);
    } else {
      communicator_.check(tuttiGroupStart(), "tuttiGroupStart");
      for (size_t i = 0; i < options_.aggregate; ++i)
        enqueue_one(iteration * options_.aggregate + i);
      communicator_.check(tuttiGroupEnd(), "tuttiGroupEnd");
    }
    const bool with_barrier = blocking == Blocking::kWaitAndBarrier;
    if (with_barrier || blocking == Blocking::kWait) wait(with_barrier);
  };
  const auto finish = [&] { wait(blocking == Blocking::kPerCycle); };

  LoopShape loop;
  loop.stepped = options_.stepped;
  loop.iterations = options_.warmup;
  if (loop.iterations > 0) timed_loop(context_, loop, call, finish);
  loop.iterations = options_.iterations;
  if (loop.iterations == 0)
    loop.iterations = calibrate(context_, kDefaultRoundUs, loop, call, finish);
  if (options_.percentiles) loop.samples = context_.board.samples(context_.rank);
  cell.iterations = loop.iterations;
  return timed_loop(context_, loop, call, finish) / static_cast<double>(options_.aggregate);
}

/// Collective: wrong elements on all ranks.
size_t Measurement::check(const PreparedCase& one) {
  double wrong = 0;
  for (size_t i = 0; i < options_.checks; ++i) {
    workload_.refill(one, i);
    context_.board.barrier();
    communicator_.check(
        enqueue(one.operation, workload_.send(one, i), workload_.recv(one, i), communicator_),
        "the checked call");
    communicator_.synchronize();
    wrong += context_.board.sum(context_.rank, static_cast<double>(workload_.count_wrong(one, i)));
  }
  return static_cast<size_t>(wrong);
}

double Measurement::over_ranks(double own_us) {
  const std::vector<double> all = context_.board.exchange(context_.rank, own_us);
  double sum = 0;
  for (const double us : all) sum += us;
  switch (options_.average) {
    case Average::kRank0: return all[0];
    case Average::kMean: return sum / static_cast<double>(all.size());
    case Average::kMin: return *std::min_element(all.begin(), all.end());
    case Average::kMax: return *std::max_element(all.begin(), all.end());
  }
  return all[0];
}

void Measurement::read_percentiles(Cell& cell) {
  const size_t count = std::min(cell.iterations, kMaxSamples);
  std::vector<double> slowest(count);
  for (int rank = 0; rank < context_.ranks; ++rank) {
    const std::span<double> samples = context_.board.samples(rank);
    for (size_t i = 0; i < count; ++i) slowest[i] = std::max(slowest[i], samples[i]);
  }
  cell.p50_us = quantile(slowest, 0.5);
  cell.p99_us = quantile(slowest, 0.99);
  cell.max_us = quantile(slowest, 1);
}

Cell Measurement::run(const PreparedCase& one) {
  Cell cell;
  workload_.prepare(one);
  cell.us = over_ranks(timed(one, cell));
  if (options_.percentiles) read_percentiles(cell);
  const double bytes_per_ns = static_cast<double>(one.size_bytes()) / std::max(cell.us, 1e-3) / 1e3;
  cell.algorithm_bandwidth = bytes_per_ns;
  cell.bus_bandwidth = bytes_per_ns * bus_factor(options_.collective, context_.ranks);
  if (options_.checks > 0) cell.wrong = check(one);
  return cell;
}

}  // namespace tutti::perf
