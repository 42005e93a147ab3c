#include "tools/cli/sweep.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "perf/collectives/error.h"
#include "perf/collectives/launched.h"
#include "perf/command_line.h"
#include "src/health/pair_sweep.h"
#include "tools/cli/pair_measurement.h"

namespace tutti::cli {
namespace {

using health::SweepPair;
using namespace perf;

struct SweepOptions {
  int ranks = 4;
  bool all = false;
  uint32_t percent = 90;

  health::SweepRules rules() const { return {.share = percent / 100.0}; }
};

constexpr size_t kMostHosts = 1024;
constexpr size_t kMostHostsOfAllPairs = 128;

/// The measurements of one rank, and what all ranks learn of them.
class Sweep {
 public:
  Sweep(const RankContext& context, const SweepOptions& options)
      : context_(context),
        options_(options),
        ends_(ends_of(context, options.all ? kMostHostsOfAllPairs : kMostHosts, "tutti sweep")) {}

  /// The exit status: 1 if something is slow.
  int run() { return options_.all ? all_pairs() : two_rounds(); }

 private:
  uint32_t hosts() const { return static_cast<uint32_t>(ends_.names.size()); }
  bool speaks() const { return context_.rank == 0; }
  const char* name(uint32_t host) const { return ends_.names[host].c_str(); }

  // Pairs that share a host are measured one after the other: a wave has every host once at most.
  void measure(const Communicator& communicator, std::vector<SweepPair>& pairs) {
    std::vector<uint32_t> wave(pairs.size(), 0), next(hosts(), 0);
    uint32_t waves = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
      wave[i] = std::max(next[pairs[i].one], next[pairs[i].other]);
      next[pairs[i].one] = next[pairs[i].other] = wave[i] + 1;
      waves = std::max(waves, wave[i] + 1);
    }
    for (uint32_t now = 0; now < waves; ++now) {
      context_.board.barrier();
      std::vector<double> own(1, 0);
      for (size_t i = 0; i < pairs.size(); ++i) {
        const int one = ends_.ranks[pairs[i].one], other = ends_.ranks[pairs[i].other];
        if (wave[i] != now || (one != context_.rank && other != context_.rank)) continue;
        const bool leads = one == context_.rank;
        own[0] = PairMeasurement(communicator, leads ? other : one, leads).bytes_per_ns();
      }
      const auto samples = context_.board.gather_samples(context_.rank, own);
      for (size_t i = 0; i < pairs.size(); ++i) {
        if (wave[i] == now)
          pairs[i].rate = samples[static_cast<size_t>(ends_.ranks[pairs[i].one])][0];
      }
    }
  }

  void print(const char* title, const std::vector<SweepPair>& pairs) const {
    if (!speaks()) return;
    std::printf("%s\n", title);
    for (const SweepPair& pair : pairs) {
      std::printf("  %-24s %-24s %10.3f GB/s\n", name(pair.one), name(pair.other),
                  pair.rate.value_or(0));
    }
  }

  int two_rounds() {
    const Communicator communicator(context_, CommunicatorOptions{});
    std::vector<SweepPair> first = health::first_round(hosts());
    measure(communicator, first);
    print("first round, neighbours:", first);
    Result<std::vector<SweepPair>> second = health::second_round(hosts(), first, options_.rules());
    if (!second.ok()) throw PerfError(std::string(second.status().message()), kExitUsage);
    measure(communicator, second.value());
    if (!second.value().empty()) {
      print("second round, suspects with good ones:", second.value());
    }
    const auto bad = health::bad_hosts(first, second.value(), options_.rules());
    if (!speaks()) return 0;
    for (const uint32_t host : bad) std::printf("slow: %s\n", name(host));
    if (bad.empty()) std::printf("none of %u is slow\n", hosts());
    return bad.empty() ? 0 : 1;
  }

  int all_pairs() {
    const topology::LinkTable table = measure_all_pairs(context_, ends_);
    if (!speaks()) return 0;
    std::fputs(topology::print_links(table).c_str(), stdout);
    std::vector<SweepPair> pairs;
    for (uint32_t one = 0; one < hosts(); ++one) {
      for (uint32_t other = one + 1; other < hosts(); ++other) {
        // Each end has measured; the slower way counts.
        pairs.push_back(
            {one, other, std::min(table.bytes_per_ns[one][other], table.bytes_per_ns[other][one])});
      }
    }
    const auto finding = health::judge_pairs(hosts(), pairs, options_.rules());
    for (const uint32_t host : finding.hosts) std::printf("slow: %s\n", name(host));
    for (const SweepPair& pair : finding.pairs) {
      std::printf("slow: the path between %s and %s\n", name(pair.one), name(pair.other));
    }
    const bool clean = finding.hosts.empty() && finding.pairs.empty();
    if (clean) std::printf("none of %u is slow\n", hosts());
    return clean ? 0 : 1;
  }

  const RankContext& context_;
  const SweepOptions& options_;
  const MeasuredEnds ends_;
};

}  // namespace

int sweep_main(int argc, char** argv) {
  try {
    SweepOptions options;
    CommandLine line(
        "which hosts of a job are slow at communicating: started by a launcher, else over ranks of "
        "this host; between jobs, since it measures",
        "tutti sweep");
    line.add({"--ranks", "N", "ranks that are started here where no launcher started any", "4"},
             options.ranks, 2, 1024);
    line.add(
        {"--all", "", "every pair, in rounds of a tournament; else two rounds find who is slow"},
        options.all);
    line.add({"--percent", "P", "of the usual rate: slower pairs are slow", "90"}, options.percent,
             1, 99);
    if (const std::optional<int> end = line.parse(argc, argv)) return *end;
    const std::optional<bootstrap::Launch> launch = this_launch();
    CrewShape shape;
    shape.processes = launch ? launch->ranks : options.ranks;
    return run_ranks(shape, launch,
                     [&](const RankContext& context) { return Sweep(context, options).run(); });
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti sweep: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
