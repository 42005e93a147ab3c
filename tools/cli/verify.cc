#include "tools/cli/verify.h"

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "perf/command_line.h"
#include "src/registry/algorithms.h"
#include "src/schedule/text.h"
#include "src/schedule/verify.h"
#include "tools/cli/arguments.h"
#include "tools/cli/verify_plans.h"
#include "tools/cli/verify_sweep.h"
#include "tools/verifier/mutant.h"

namespace tutti::cli {
namespace {

using namespace schedule;

constexpr int kMostRanks = 1 << 16;
constexpr int kExhaustive = 64;
constexpr int kSamples[] = {65, 96, 127, 128, 255, 1000, 1024, 4095, 4096};
constexpr int kMutantRanks[] = {2, 3, 5, 8};

struct Options {
  std::string what;   // "", "all_reduce" or "all_reduce/ring"
  std::string ranks;  // "", "8" or "1-64"
  std::string text;   // a file
  bool deep = false;
  bool mutants = false;
  bool one_thread = false;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "tutti verify: %s\n", why.c_str());
  return 2;
}

std::vector<const Algorithm*> chosen(const std::string& what) {
  std::vector<const Algorithm*> algorithms;
  for (const Algorithm& algorithm : registry::algorithms()) {
    if (is_named(algorithm, what)) algorithms.push_back(&algorithm);
  }
  return algorithms;
}

// {1, 2, 3, 8} as "1-3,8".
std::string print_ranks(const std::set<int>& ranks) {
  std::string text;
  for (auto at = ranks.begin(); at != ranks.end();) {
    const int first = *at;
    int last = first;
    while (++at != ranks.end() && *at == last + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(first);
    if (last != first) text += '-' + std::to_string(last);
  }
  return text.empty() ? "none" : text;
}

std::string print_canonical(const Findings& f) {
  if (!reduces(f.algorithm->collective)) return "-";
  if (f.first_not_canonical == 0) return "all";
  const auto& ranks = f.ranks[0];
  const auto first = ranks.lower_bound(f.first_not_canonical);
  if (first == ranks.begin() || *std::prev(first) == 1) return "none";
  return "up to " + std::to_string(*std::prev(first));
}

std::string print_counts(const Findings& f) {
  if (f.forwards) return "forwards";
  return f.needs_equal_counts ? "equal" : "any";
}

void print_findings(const Findings& f) {
  const bool both = f.algorithm->in_place;
  std::set<int> ranks = f.ranks[0];
  ranks.insert(f.ranks[1].begin(), f.ranks[1].end());
  std::printf("%-30s %-9s %6llu %7llu %6u  %-9s %-5s %-8s %s\n", full_name(*f.algorithm).c_str(),
              both ? "both" : "separate", static_cast<unsigned long long>(f.cases),
              static_cast<unsigned long long>(f.skipped), f.least_credit,
              print_canonical(f).c_str(), f.agrees ? "same" : "differ", print_counts(f).c_str(),
              f.failed_ranks == 0 ? print_ranks(ranks).c_str() : "REFUSED");
}

int run_sweep(const Options& options) {
  SweepOptions sweep_options;
  sweep_options.deep = options.deep;
  sweep_options.threads =
      options.one_thread ? 1 : std::max(1u, std::thread::hardware_concurrency());
  if (options.ranks.empty()) {
    sweep_options.ranks.resize(kExhaustive);
    std::iota(sweep_options.ranks.begin(), sweep_options.ranks.end(), 1);
    sweep_options.samples.assign(std::begin(kSamples), std::end(kSamples));
  } else {
    sweep_options.ranks = parse_ranks(options.ranks, kMostRanks);
    if (sweep_options.ranks.empty()) {
      return fail("--ranks is N or N-M, at most " + std::to_string(kMostRanks));
    }
  }
  const auto start = std::chrono::steady_clock::now();
  const auto algorithms = chosen(options.what);
  const std::vector<Findings> all = sweep(algorithms, sweep_options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  std::printf("%-30s %-9s %6s %7s %6s  %-9s %-5s %-8s %s\n", "algorithm", "placement", "cases",
              "skipped", "credit", "canonical", "bits", "counts", "ranks; cost as declared");
  uint64_t cases = 0;
  bool refused = false;
  for (const Findings& f : all) {
    print_findings(f);
    cases += f.cases;
    refused |= f.failed_ranks != 0;
  }
  for (const Findings& f : all) {
    if (f.failed_ranks != 0) std::printf("\nrefused: %s\n", f.failure.c_str());
  }
  std::printf("\n%llu cases in %.1f s: %s\n", static_cast<unsigned long long>(cases), took.count(),
              refused ? "REFUSED" : "proved");
  return refused ? 1 : 0;
}

// ---- mutants --------------------------------------------------------------------------------

struct MutantTotal {
  uint64_t refused = 0;
  uint64_t equivalent = 0;
  uint64_t survived = 0;

  uint64_t all() const { return refused + equivalent + survived; }
  MutantTotal& operator+=(const MutantTotal& other) {
    refused += other.refused;
    equivalent += other.equivalent;
    survived += other.survived;
    return *this;
  }
};

MutantTotal mutants_of(const Algorithm& algorithm, const Parameters& parameters,
                       Placement placement) {
  const ScheduleSet set = generate(algorithm, parameters);
  const MutantReport report = try_mutants(set, placement);
  const std::string where =
      describe(algorithm, parameters) + (placement == Placement::kInPlace ? ", in place" : "");
  for (const std::string& mutant : report.equivalent) {
    std::printf("equivalent: %s: %s\n", where.c_str(), mutant.c_str());
  }
  for (const std::string& mutant : report.survived) {
    std::printf("SURVIVED: %s: %s\n", where.c_str(), mutant.c_str());
  }
  return {report.refused, report.equivalent.size(), report.survived.size()};
}

MutantTotal mutants_of(const Algorithm& algorithm, Placement placement) {
  MutantTotal total;
  for (int ranks : kMutantRanks) {
    for (const Parameters& p : parameters_of(algorithm, ranks, false)) {
      if (p.lanes > 2 || (p.root != 0 && p.root != ranks - 1)) continue;
      total += mutants_of(algorithm, p, placement);
    }
  }
  return total;
}

void print_total(const char* placement, const MutantTotal& sum) {
  const uint64_t all = sum.all();
  std::printf(
      "%llu mutants %s, %llu equivalent (%.2f %%), %llu survived\n",
      static_cast<unsigned long long>(all), placement,
      static_cast<unsigned long long>(sum.equivalent),
      all == 0 ? 0.0 : 100.0 * static_cast<double>(sum.equivalent) / static_cast<double>(all),
      static_cast<unsigned long long>(sum.survived));
}

int run_mutants(const Options& options) {
  MutantTotal separate, in_place;
  std::string table;
  for (const Algorithm* algorithm : chosen(options.what)) {
    MutantTotal total = mutants_of(*algorithm, Placement::kSeparate);
    separate += total;
    if (algorithm->in_place) {
      const MutantTotal more = mutants_of(*algorithm, Placement::kInPlace);
      in_place += more;
      total += more;
    }
    char line[128];
    std::snprintf(line, sizeof line, "%-30s %8llu %10llu %8llu\n", full_name(*algorithm).c_str(),
                  static_cast<unsigned long long>(total.refused),
                  static_cast<unsigned long long>(total.equivalent),
                  static_cast<unsigned long long>(total.survived));
    table += line;
  }
  std::printf("\n%-30s %8s %10s %8s\n%s\n", "algorithm", "refused", "equivalent", "survived",
              table.c_str());
  print_total("with separate buffers", separate);
  print_total("in place", in_place);
  // Of all algorithms together: a small one may have nothing but symmetric steps to swap.
  const auto too_many = [](const MutantTotal& sum) { return sum.equivalent * 100 > sum.all(); };
  const bool refused = options.what.empty() && (too_many(separate) || too_many(in_place));
  if (refused) std::printf("REFUSED: more than 1 %% are equivalent\n");
  return separate.survived + in_place.survived == 0 && !refused ? 0 : 1;
}

// ---- a text ---------------------------------------------------------------------------------

void print_verdict(const char* placement, const Result<Verdict>& result) {
  if (!result.ok()) {
    std::printf("%s: REFUSED: %s\n", placement, std::string(result.status().message()).c_str());
    return;
  }
  const Verdict& v = result.value();
  std::printf("%s: proved; %s; credit %u%s%s%s%s\n", placement, print(v.cost).c_str(),
              v.least_credit, v.canonical ? ", canonical" : "",
              v.agrees ? "" : ", ranks may get different bits", v.forwards ? ", forwards" : "",
              v.needs_equal_counts ? ", needs equal counts" : "");
}

int run_text(const Options& options) {
  std::ifstream file(options.text, std::ios::binary);
  if (!file) return fail("cannot read " + options.text);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const Result<ScheduleSet> set = parse(text);
  if (!set.ok()) {
    std::printf("%s: %s\n", options.text.c_str(), std::string(set.status().message()).c_str());
    return 1;
  }
  bool proved = false;
  for (Placement placement : {Placement::kSeparate, Placement::kInPlace}) {
    VerifyOptions verify_options;
    verify_options.placement = placement;
    const auto result = verify(set.value().shape, set.value().schedules, verify_options);
    print_verdict(placement == Placement::kSeparate ? "separate" : "in place", result);
    proved |= result.ok();
  }
  return proved ? 0 : 1;
}

}  // namespace

int verify_main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--plans") return verify_plans_main(argc, argv);
  }
  Options options;
  perf::CommandLine line(
      "Proves the schedules of the registered algorithms, for every count at once.",
      "tutti verify");
  line.add({"what", "NAME", "collective, or collective/algorithm; none: all"}, options.what);
  line.add({"--ranks", "N", "or N-M; without: 1-64 and samples to 4096"}, options.ranks);
  line.add(
      {"--deep", "", "every number of lanes, and all samples that memory can hold: takes long"},
      options.deep);
  line.add({"--mutants", "", "change one thing everywhere; all must be refused"}, options.mutants);
  line.add({"--text", "FILE", "prove the schedule in this file instead"}, options.text);
  bool plans = false;
  line.add({"--plans", "", "prove the plans instead; see --plans --help"}, plans);
  line.add({"--one-thread", "", "do not use all cores"}, options.one_thread);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  if (!options.text.empty()) return run_text(options);
  if (chosen(options.what).empty()) return fail("there is no algorithm '" + options.what + "'");
  return options.mutants ? run_mutants(options) : run_sweep(options);
}

}  // namespace tutti::cli
