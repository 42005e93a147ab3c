#include "tools/cli/print.h"

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/command_line.h"
#include "src/plan/text.h"
#include "src/registry/algorithms.h"
#include "src/schedule/text.h"
#include "tools/cli/arguments.h"
#include "tools/cli/print_loads.h"
#include "tools/cli/verify_sweep.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::cli {
namespace {

constexpr int kMostRanks = 4096;  // what `tutti verify` samples
constexpr int kMostPlannedRanks = 32;
constexpr int kMostLanes = 64;

struct Options {
  std::string what;
  schedule::Parameters parameters{.ranks = 4};
  bool tree = false;
  bool plans = false;
  std::optional<size_t> plan;
  uint64_t count = 1024;
  std::string topology;
  bool loads = false;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "tutti print: %s\n", why.c_str());
  return 2;
}

const schedule::Algorithm* find_algorithm(std::string_view what) {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    if (what == full_name(algorithm)) return &algorithm;
  }
  return nullptr;
}

// ---- plans ----------------------------------------------------------------------------------

int print_plans(const schedule::Algorithm& algorithm, const Options& options) {
  if (options.parameters.ranks > kMostPlannedRanks) {
    return fail("plans are printed for at most " + std::to_string(kMostPlannedRanks) + " ranks");
  }
  const std::vector<plan::Lowering> chosen = plan::lowerings(algorithm, options.parameters);
  if (!options.plan) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      std::printf("--plan %zu: %s\n", i, print(chosen[i]).c_str());
    }
    return 0;
  }
  if (*options.plan >= chosen.size()) {
    return fail("--plan is one of the " + std::to_string(chosen.size()) + " that --plans lists");
  }
  const auto matches = plan::match_all(chosen[*options.plan]);
  if (!matches.ok()) return fail(std::string(matches.status().message()));
  const plan::BindRequest request{options.count, types::DataType::kFloat32};
  const plan::PlanSet set = plan::bind_all(matches.value(), request, plan::Tuning());
  std::printf("# %s, %llu float32\n", print(chosen[*options.plan]).c_str(),
              static_cast<unsigned long long>(options.count));
  for (size_t rank = 0; rank < set.plans.size(); ++rank) {
    std::fputs(plan::print(set.plans[rank], static_cast<int>(rank)).c_str(), stdout);
  }
  return 0;
}

// ---- the command ----------------------------------------------------------------------------

int print_loads(const schedule::Algorithm& algorithm, const Options& options,
                const ClusterRanks& cluster) {
  const Result<std::string> text = loads_text(algorithm, options.parameters, cluster);
  if (!text.ok()) return fail(std::string(text.status().message()));
  std::fputs(text.value().c_str(), stdout);
  return 0;
}

int print(Options& options) {
  const schedule::Algorithm* const algorithm = find_algorithm(options.what);
  if (algorithm == nullptr) {
    return fail("there is no algorithm '" + options.what + "'; `tutti algorithms` lists them");
  }
  schedule::Parameters& p = options.parameters;
  if (options.loads && options.topology.empty()) return fail("--loads needs --topology");
  std::optional<ClusterRanks> cluster;
  if (!options.topology.empty()) {
    Result<ClusterRanks> read = ranks_of(options.topology);
    if (!read.ok()) return fail(std::string(read.status().message()));
    cluster = std::move(read).value();
    p.ranks = cluster->tree->ranks();
    p.tree = cluster->tree;
    if (p.ranks > kMostRanks) {
      return fail(options.topology + " has " + std::to_string(p.ranks) + " ranks: at most " +
                  std::to_string(kMostRanks) + " are printed");
    }
  }
  if (p.root >= p.ranks) return fail("--root is a rank: less than the number of ranks");
  if (p.lanes > algorithm->max_lanes) {
    return fail("it has at most " + std::to_string(algorithm->max_lanes) + " lanes");
  }
  if (options.plans || options.plan) return print_plans(*algorithm, options);
  if (options.loads) return print_loads(*algorithm, options, *cluster);
  const schedule::ScheduleSet set = generate(*algorithm, p);
  std::fputs(schedule::print(set.shape, set.schedules).c_str(), stdout);
  return 0;
}

}  // namespace

int print_main(int argc, char** argv) {
  Options options;
  perf::CommandLine line(
      "Prints the schedule of an algorithm, as `tutti verify --text FILE` reads it, or its plans.",
      "tutti print");
  schedule::Parameters& p = options.parameters;
  perf::Argument what{"algorithm", "NAME", "for example all_reduce/ring"};
  what.required = true;
  line.add(what, options.what);
  line.add({"--ranks", "N", "how many ranks", "4"}, p.ranks, 1, kMostRanks);
  line.add({"--root", "RANK", "of a rooted collective", "0"}, p.root, 0, kMostRanks);
  line.add({"--lanes", "N", "how many lanes", "1"}, p.lanes, 1, kMostLanes);
  line.add({"--topology", "FILE",
            "a cluster, one rank for each leaf, in place of --ranks (docs/topology.md)"},
           options.topology);
  line.add({"--loads", "", "print instead what crosses the links of each node of the --topology"},
           options.loads);
  line.add({"--tree", "", "fold in a fixed tree, as deterministic calls do"}, options.tree);
  line.add({"--plans", "", "list the ways in which it is lowered to plans"}, options.plans);
  line.add({"--plan", "N", "print all ranks' plans: N as --plans numbers them"},
           [&](const std::string& text) { options.plan = perf::whole_number(text); });
  line.add({"--count", "N", "elements (float32) that the plans are made for", "1024"},
           options.count, 1, uint64_t{1} << 40);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  if (options.tree) options.parameters.fold = schedule::Fold::kTree;
  return print(options);
}

}  // namespace tutti::cli
