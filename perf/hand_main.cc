// Prints the nanoseconds of the hand-written 8-byte all_reduce (hand/one_shot.h): the yardstick for
// Tutti's smallest call.
//
//   hand [--ranks N]          N processes
//   hand --self [--ranks N]   one process; the flags of the other ranks are raised beforehand
//
// --self has no waiting in it, so that instructions can be counted: run it under
//   valgrind --tool=callgrind hand --self --rounds 1 -n 1000
// and with -n 2000; a thousandth of the difference is one call.
#include <sched.h>
#include <sys/mman.h>

#include <cstdio>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/statistics.h"
#include "perf/collectives/timed_loop.h"
#include "perf/command_line.h"
#include "perf/hand/one_shot.h"

namespace tutti::perf {
namespace {

struct HandOptions {
  int ranks = 2;
  size_t calls = 20'000;
  int rounds = 51;
  bool self = false;
};

OneShotLine* map_lines(int ranks) {
  const size_t bytes = OneShot::line_count(ranks) * sizeof(OneShotLine);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw PerfError("cannot map shared memory");
  return static_cast<OneShotLine*>(memory);
}

/// Rank 0 alone: the others have published for all calls to come.
void raise_flags(OneShotLine* lines, int ranks) {
  for (size_t i = 0; i < OneShot::line_count(ranks); ++i) {
    const bool is_other = i % static_cast<size_t>(ranks) != 0;
    if (is_other) lines[i].call.store(std::numeric_limits<uint64_t>::max());
  }
}

int measure(const RankContext& context, OneShotLine* lines, const HandOptions& options) {
  const bool may_spin =
      options.self || options.ranks <= static_cast<int>(std::thread::hardware_concurrency());
  const auto relax = [may_spin] { may_spin ? relax_processor() : void(sched_yield()); };
  OneShot one_shot(lines, context.rank, options.ranks);
  const float send[2] = {static_cast<float>(context.rank), 1};
  float recv[2] = {};
  std::vector<double> rounds_ns;
  for (int round = 0; round < options.rounds; ++round) {
    const LoopTime own = timed_loop(
        context, {options.calls, false, {}},
        [&](size_t) { one_shot.all_reduce(send, recv, relax); }, [] {});
    rounds_ns.push_back(context.board.max(context.rank, own.us) * 1e3);
  }
  const auto n = static_cast<float>(options.self ? 1 : options.ranks);
  if (recv[0] != n * (n - 1) / 2 || recv[1] != n) throw PerfError("the sum is wrong");
  if (context.rank == 0) {
    std::printf("%d ranks%s: %.2f ns per call (median of %d rounds of %zu calls; %.2f..%.2f)\n",
                options.ranks, options.self ? ", one alone" : "", median(rounds_ns), options.rounds,
                options.calls, quantile(rounds_ns, 0), quantile(rounds_ns, 1));
  }
  return 0;
}

int hand_main(int argc, char** argv) {
  HandOptions options;
  CommandLine line("The bare 8-byte all_reduce loop.", "hand");
  line.add({"--ranks,--np", "N", "processes", "2"}, options.ranks, 1, 64);
  line.add({"-n", "N", "calls per round", "20000"}, options.calls, 1, 1 << 30);
  line.add({"--rounds", "N", "rounds", "51"}, options.rounds, 1, 1 << 20);
  line.add({"--self", "", "rank 0 alone, the other flags raised beforehand"}, options.self);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  try {
    OneShotLine* lines = map_lines(options.ranks);
    if (options.self) raise_flags(lines, options.ranks);
    const CrewShape crew{options.self ? 1 : options.ranks, 1};
    return run_crew(crew,
                    [&](const RankContext& context) { return measure(context, lines, options); });
  } catch (const PerfError& error) {
    std::fprintf(stderr, "hand: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) { return tutti::perf::hand_main(argc, argv); }
