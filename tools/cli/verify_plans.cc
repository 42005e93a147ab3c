#include "tools/cli/verify_plans.h"

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "perf/command_line.h"
#include "src/registry/algorithms.h"
#include "tools/cli/arguments.h"
#include "tools/verifier/plan_mutants.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::cli {
namespace {

constexpr int kMostRanks = 32;  // the cost grows with the cube

struct Options {
  std::string what;
  std::string ranks;
  bool mutants = false;
};

struct Row {
  plan::Tally tally;
  uint64_t mutants = 0;
  uint64_t equivalent = 0;
  std::string counter_example;
};

// The mutants of one lowering. Of what is accepted this tells nothing: the tests of verify_plans()
// name the faults that must not be.
void judge_mutants(const plan::Lowering& lowering, Row& row) {
  const Result<std::vector<plan::Match>> matches = plan::match_all(lowering);
  if (!matches.ok()) return;
  const bool encodes = !lowering.wire.empty();  // doubles are not
  const plan::BindRequest request{40,
                                  encodes ? types::DataType::kFloat32 : types::DataType::kFloat64};
  plan::PlanSet set = plan::bind_all(matches.value(), request, plan::small_tuning(false));
  plan::each_mutant(set, [&](const plan::Mutant&) {
    ++row.mutants;
    bool accepted = true;
    for (const plan::VerifyPlanOptions& options : plan::small_rings(set)) {
      accepted = accepted && plan::verify_plans(set, options).ok();
    }
    row.equivalent += accepted ? 1 : 0;
  });
}

/// Exact ones, then those whose levels encode; a barrier has nothing to encode.
std::vector<plan::Lowering> all_lowerings(const schedule::Algorithm& algorithm, int ranks) {
  std::vector<plan::Lowering> all = plan::lowerings(algorithm, ranks);
  if (algorithm.collective == schedule::Collective::kBarrier) return all;
  for (plan::Lowering& one : plan::encoded_lowerings(algorithm, ranks)) {
    all.push_back(std::move(one));
  }
  return all;
}

Row verify(const schedule::Algorithm& algorithm, const std::vector<int>& ranks, bool mutants) {
  Row row;
  for (int n : ranks) {
    for (const plan::Lowering& lowering : all_lowerings(algorithm, n)) {
      const plan::Tally tally =
          plan::verify_lowering(lowering, [&](const std::string& which, const Status& why) {
            if (!row.counter_example.empty()) return;
            row.counter_example = which + "\n    " + std::string(why.message());
          });
      row.tally.plan_sets += tally.plan_sets;
      row.tally.micro_operations += tally.micro_operations;
      row.tally.refused += tally.refused;
      if (mutants) judge_mutants(lowering, row);
    }
  }
  return row;
}

void print(const schedule::Algorithm& algorithm, const Row& row, double seconds) {
  std::printf("%-36s %10llu %12llu %8llu", full_name(algorithm).c_str(),
              static_cast<unsigned long long>(row.tally.plan_sets),
              static_cast<unsigned long long>(row.tally.micro_operations),
              static_cast<unsigned long long>(row.tally.refused));
  if (row.mutants > 0) {
    std::printf(" %9llu %11llu", static_cast<unsigned long long>(row.mutants),
                static_cast<unsigned long long>(row.equivalent));
  }
  std::printf(" %8.2f\n", seconds);
  if (!row.counter_example.empty()) std::printf("  refused: %s\n", row.counter_example.c_str());
}

int run(const Options& options) {
  const std::vector<int> ranks = options.ranks.empty() ? std::vector{1, 2, 3, 4, 5, 8}
                                                       : parse_ranks(options.ranks, kMostRanks);
  if (ranks.empty()) {
    std::fprintf(stderr, "tutti verify --plans: --ranks is N or N-M, at most %d\n", kMostRanks);
    return 2;
  }
  std::printf("%-36s %10s %12s %8s%s %8s\n", "algorithm", "plan sets", "micro-ops", "refused",
              options.mutants ? "   mutants    accepted" : "", "seconds");
  uint64_t verified = 0, refused = 0;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    if (!is_named(algorithm, options.what)) continue;
    const auto begin = std::chrono::steady_clock::now();
    const Row row = verify(algorithm, ranks, options.mutants);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    print(algorithm, row, taken.count());
    verified += row.tally.plan_sets;
    refused += row.tally.refused;
  }
  if (verified == 0) {
    std::fprintf(stderr, "tutti verify --plans: there is no algorithm '%s'\n",
                 options.what.c_str());
    return 2;
  }
  return refused == 0 ? 0 : 1;
}

}  // namespace

int verify_plans_main(int argc, char** argv) {
  Options options;
  perf::CommandLine line("Proves the plans of the registered algorithms.", "tutti verify --plans");
  line.add({"algorithm", "NAME", "all_reduce or all_reduce/ring; none: all"}, options.what);
  line.add({"--ranks", "N", "or N-M; without: 1, 2, 3, 4, 5 and 8"}, options.ranks);
  line.add({"--mutants", "", "also judge plans with one fault each"}, options.mutants);
  bool plans = true;
  line.add({"--plans", "", "taken, so that the arguments of `tutti verify` can be handed on"},
           plans);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  return run(options);
}

}  // namespace tutti::cli
