#include "tools/cli/spares.h"

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "perf/collectives/error.h"
#include "perf/command_line.h"
#include "src/health/spares.h"

namespace tutti::cli {
namespace {

using health::SpareModel;
using health::SparePrediction;

struct SparesOptions {
  SpareModel model;
  uint64_t cold_start_s = 0;
  uint64_t failures = 0, seed = 1;
  uint32_t most_blocks = 0, most_trays = 0;
};

void print(const SpareModel& model, const SparePrediction& made) {
  std::printf("%u zones of %u blocks and %u spare ones, of %u trays with %u spare ones\n",
              model.zones, model.blocks, model.spare_blocks, model.trays, model.spare_trays);
  std::printf("  a tray works        %.6f\n  a block works       %.6f\n", made.tray, made.block);
  std::printf("  a zone works        %.6f\n  the job runs        %.6f\n", made.zone, made.running);
  std::printf("  failures            %.3f an hour, of trays that it uses\n", made.failures_per_h);
  std::printf("  a checkpoint every  %.0f s\n", made.interval_s);
  std::printf("  training goes on    %.4f of the time, by %.4f of all trays: goodput %.4f\n",
              made.effective, made.used, made.goodput);
}

template <class Value>
Value value_or_throw(Result<Value> result) {
  if (result.ok()) return std::move(result).value();
  throw perf::PerfError(std::string(result.status().message()), perf::kExitUsage);
}

int run(const SparesOptions& options) {
  SpareModel model = options.model;
  model.restart_s += static_cast<double>(options.cold_start_s);
  print(model, value_or_throw(health::predict(model)));
  if (options.most_blocks > 0 || options.most_trays > 0) {
    const SpareModel best =
        value_or_throw(health::best_spares(model, options.most_blocks, options.most_trays));
    std::printf("\nthe most goodput with up to %u spare blocks and %u spare trays:\n",
                options.most_blocks, options.most_trays);
    print(best, value_or_throw(health::predict(best)));
    model = best;
  }
  if (options.failures > 0) {
    const health::SpareSimulation simulated =
        value_or_throw(health::simulate_spares(model, options.seed, options.failures));
    std::printf("\nsimulated over %llu failures: a block works %.6f, the job runs %.6f\n",
                static_cast<unsigned long long>(simulated.failures), simulated.block,
                simulated.running);
  }
  return 0;
}

void add_numbers(perf::CommandLine& line, SparesOptions& options) {
  constexpr uint64_t kMost = 1 << 20;
  SpareModel& model = options.model;
  line.add({"--zones", "N", "zones, all of which the job needs", "1"}, model.zones, 1, kMost);
  line.add({"--blocks", "N", "blocks of a zone that the job needs", "1"}, model.blocks, 1, kMost);
  line.add({"--spare-blocks", "N", "blocks of a zone beside them", "0"}, model.spare_blocks, 0,
           kMost);
  line.add({"--trays", "N", "trays of a block, with the spare ones", "1"}, model.trays, 1, kMost);
  line.add({"--spare-trays", "N", "of them that a block can do without", "0"}, model.spare_trays, 0,
           kMost);
  line.add({"--mtbf", "HOURS", "of a tray, between failures", "5000"}, model.failure_hours, 1,
           100'000'000);
  line.add({"--mttr", "HOURS", "of its repair", "24"}, model.repair_hours, 1, 1'000'000);
  line.add({"--checkpoint", "S", "that saving takes", "60"}, model.checkpoint_s, 1, 1'000'000);
  line.add({"--interval", "S", "between checkpoints; 0: the one that wastes least", "0"},
           model.interval_s, 0, 100'000'000);
  line.add({"--detect", "S", "until a failure is noticed", "60"}, model.detect_s, 0, 1'000'000);
  line.add({"--restart", "S", "until the job goes on with a hot spare", "240"}, model.restart_s, 0,
           1'000'000);
  line.add(
      {"--cold-start", "S", "more, where spares are cold: off, or without the job's software", "0"},
      options.cold_start_s, 0, 1'000'000);
}

}  // namespace

int spares_main(int argc, char** argv) {
  try {
    SparesOptions options;
    perf::CommandLine line("how many spares a large job should have, and of what kind",
                           "tutti spares");
    add_numbers(line, options);
    line.add(
        {"--most-blocks", "N", "find the best numbers, up to so many spare blocks of a zone", "0"},
        options.most_blocks, 0, 10'000);
    line.add({"--most-trays", "N",
              "and so many spare trays beside those that a block computes with", "0"},
             options.most_trays, 0, 10'000);
    line.add({"--simulate", "N", "until so many trays have failed, to compare", "0"},
             options.failures, 0, 100'000'000);
    line.add({"--seed", "N", "of the simulation", "1"}, options.seed, 0, ~uint64_t{0});
    if (const std::optional<int> end = line.parse(argc, argv)) return *end;
    return run(options);
  } catch (const perf::PerfError& error) {
    std::fprintf(stderr, "tutti spares: %s\n", error.what());
    return error.exit_code;
  }
}

}  // namespace tutti::cli
