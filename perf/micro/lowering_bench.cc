// Measures the cost of lowering for rank 1 of 128 on one host: match() once a schedule, bind() at
// each new count.
#include <benchmark/benchmark.h>

#include <string>

#include "src/plan/bind.h"
#include "src/plan/match.h"
#include "src/registry/algorithms.h"

namespace tutti::plan {
namespace {

constexpr int kRanks = 128;
constexpr uint64_t kCount = 4 << 20;

struct Wanted {
  explicit Wanted(const schedule::Algorithm& algorithm) {
    request.algorithm = &algorithm;
    request.parameters.ranks = kRanks;
    request.rank = 1;
    request.group = group::group_on_hosts(std::vector<int>(kRanks, 0));
  }
  Wanted(const Wanted&) = delete;

  MatchRequest request;
};

void bench_match(benchmark::State& state, const schedule::Algorithm* algorithm) {
  const Wanted wanted(*algorithm);
  for (auto _ : state) benchmark::DoNotOptimize(match(wanted.request).ok());
}

void bench_bind(benchmark::State& state, const schedule::Algorithm* algorithm) {
  const Wanted wanted(*algorithm);
  const Result<Match> made = match(wanted.request);
  if (!made.ok()) return state.SkipWithError(std::string(made.status().message()).c_str());
  uint64_t count = kCount;  // another one each time, as at a miss of the cache
  for (auto _ : state) benchmark::DoNotOptimize(bind(made.value(), {++count}, {}).ops.data());
}

// Runs before main, as the macros of the library do.
const bool registered = [] {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    const std::string name =
        std::string(schedule::name_of(algorithm.collective)) + "/" + std::string(algorithm.name);
    benchmark::RegisterBenchmark((name + "/match").c_str(), bench_match, &algorithm);
    benchmark::RegisterBenchmark((name + "/bind").c_str(), bench_bind, &algorithm);
  }
  return true;
}();

}  // namespace
}  // namespace tutti::plan
