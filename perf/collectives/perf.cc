#include "perf/collectives/perf.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/measure.h"
#include "perf/collectives/options.h"
#include "perf/collectives/report.h"
#include "perf/collectives/versus.h"

namespace tutti::perf {
namespace {

/// The roots of a sweep: one, or each.
std::vector<int> roots_of(const PerfOptions& options) {
  const bool all = options.root < 0 && traits_of(options.collective).has_root;
  std::vector<int> roots;
  if (!all) return {std::max(options.root, 0)};
  for (int root = 0; root < options.crew.ranks(); ++root) roots.push_back(root);
  return roots;
}

/// Types, operations and roots outside, sizes inside, as nccl-tests.
std::vector<Case> cases_of(const PerfOptions& options) {
  std::vector<Case> cases;
  for (const tuttiDataType_t type : options.types) {
    for (const tuttiRedOp_t op : options.ops) {
      for (const int root : roots_of(options)) {
        for (const size_t bytes : options.byte_sizes()) cases.push_back({bytes, type, op, root});
      }
    }
  }
  return cases;
}

int run_sweep(const RankContext& context, const PerfOptions& options) {
  const std::vector<double> pids = context.board.exchange(context.rank, getpid());
  Measurement measurement(context, options);
  Report report(options);
  const bool speaks = context.rank == 0;
  if (speaks) report.header(pids);
  for (size_t cycle = 0; options.cycles == 0 || cycle < options.cycles; ++cycle) {
    for (const Case& one : cases_of(options)) {
      const PreparedCase out_of_place(options, context, one, false);
      Line line{one, out_of_place.size_bytes(), out_of_place.shape.count, {}, {}};
      line.out_of_place = measurement.run(out_of_place);
      if (traits_of(options.collective).in_place) {
        line.in_place = measurement.run({options, context, one, true});
      }
      if (speaks) report.add(line);
    }
  }
  return speaks ? report.finish() : 0;
}

/// Under a launcher this process is one rank of a group that others start too.
bool started_by_a_launcher() {
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr ||
         (std::getenv("RANK") != nullptr && std::getenv("WORLD_SIZE") != nullptr);
}

int list_collectives() {
  std::printf(
      "usage: tutti perf COLLECTIVE [flags]      tutti perf COLLECTIVE --help\n"
      "       tutti perf compare RAW.csv...      the tables of --vs again\n\n"
      "collectives:");
  for (const CollectiveTraits& traits : all_collectives()) std::printf(" %s", traits.name);
  std::printf("\n");
  return 2;
}

}  // namespace

int collective_main(int argc, char** argv) {
  const CollectiveTraits* traits = find_collective(argv[0]);
  if (traits == nullptr) {
    std::fprintf(stderr, "tutti perf: there is no collective '%s'\n", argv[0]);
    return list_collectives();
  }
  int exit_code = 0;
  const auto options = parse_options(*traits, argc, argv, &exit_code);
  if (!options) return exit_code;
  if (started_by_a_launcher()) {
    std::fprintf(
        stderr,
        "tutti perf: started as one rank by mpirun or torchrun, but this version of the "
        "library cannot\nform a group without an id that its caller hands on. Use --ranks N "
        "on one host, or --vs for MPI.\n");
    return 2;
  }
  try {
    if (!options->versus.peers.empty()) return versus_main(*options, {argv, argv + argc});
    return run_crew(options->crew,
                    [&](const RankContext& context) { return run_sweep(context, *options); });
  } catch (const PerfError& error) {
    std::fprintf(stderr, "tutti perf: %s\n", error.what());
    return 2;
  }
}

int perf_main(int argc, char** argv) {
  if (argc < 2) return list_collectives();
  if (std::string(argv[1]) == "compare") return compare_main(argc - 1, argv + 1);
  return collective_main(argc - 1, argv + 1);
}

}  // namespace tutti::perf
