// Measures the cost of an open window for collectives: the thread of windows
// (src/comm/progress_thread.h) looks at the sockets that collectives use. all_reduces of one size
// on three communicators in turn, over and over: with a window, without, and once more without,
// which shows what a ratio is worth on this machine.
//
//   progress_thread [ROUNDS [RANKS]]
//
// Beside the ratios, what the thread of rank 0's process ran and how often it was woken, for each
// call with a window: this does not depend on what else the machine does.
//
// Half of the ranks, processes all, are on one host and half on another as far as the library
// knows.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "include/tutti/tutti.h"
#include "perf/collectives/crew.h"
#include "perf/collectives/error.h"
#include "perf/collectives/statistics.h"
#include "src/base/clock.h"

namespace tutti::perf {
namespace {

enum Variant : size_t { kPlain, kControl, kWindow, kVariants };

constexpr size_t kSizes[] = {8, 64 << 10, 16 << 20};
constexpr double kStretchNs = 100'000'000;  // of one variant in a round

void check(tuttiResult_t result) {
  if (result != tuttiSuccess) throw PerfError(tuttiGetLastError(nullptr), kExitLibrary);
}

/// The kernel's account of the thread so far.
struct Thread {
  double run_ns = 0;
  double turns = 0;  // on a processor

  Thread operator-(const Thread& before) const {
    return {run_ns - before.run_ns, turns - before.turns};
  }
};

Thread progress_thread_so_far() {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "tutti-onesided") continue;
    Thread thread;
    double waited_ns = 0;
    std::ifstream(task.path() / "schedstat") >> thread.run_ns >> waited_ns >> thread.turns;
    return thread;
  }
  return {};
}

class Rank {
 public:
  explicit Rank(const RankContext& context) : context_(context) {
    setenv("TUTTI_HOST_ID", context.rank * 2 < context.ranks ? "first" : "second", 1);
    for (tuttiComm_t& comm : comms_) open(comm);
    check(tuttiCommWindowRegister(comms_[kWindow], part_.data(), part_.size(), &window_, 0));
  }
  ~Rank() {
    for (tuttiComm_t comm : comms_) tuttiCommDestroy(comm);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void measure(size_t bytes, int rounds) {
    send_.assign(bytes / sizeof(float), 1.0f);
    recv_.assign(send_.size(), 0.0f);
    int calls = 1;
    for (const tuttiComm_t comm : comms_) {
      calls = std::max(calls, static_cast<int>(kStretchNs / time_ns(comm, 5)));
    }
    std::array<std::vector<double>, kVariants> times_ns;
    const Thread before = progress_thread_so_far();
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < kVariants; ++i) {
        // Each follows each equally often.
        const size_t turn = round % 2 == 0 ? i : kVariants - 1 - i;
        const size_t variant = (turn + static_cast<size_t>(round / 2)) % kVariants;
        times_ns[variant].push_back(time_ns(comms_[variant], calls));
      }
    }
    const Thread thread = progress_thread_so_far() - before;
    if (context_.rank != 0) return;
    print(bytes, calls, times_ns);
    std::printf("            the thread ran %.2f us and %.3f times a call\n",
                thread.run_ns * 1e-3 / rounds / calls, thread.turns / rounds / calls);
    std::fflush(stdout);
  }

 private:
  void open(tuttiComm_t& comm) {
    tuttiUniqueId id{};
    if (context_.rank == 0) check(tuttiGetUniqueId(&id));
    id = context_.board.exchange(context_.rank, id).front();
    check(tuttiCommInitRank(&comm, context_.ranks, id, context_.rank));
  }

  // The slowest rank's, of one call.
  double time_ns(tuttiComm_t comm, int calls) {
    context_.board.barrier();
    const uint64_t begin_ns = monotonic_ns();
    for (int i = 0; i < calls; ++i) {
      check(tuttiAllReduce(send_.data(), recv_.data(), send_.size(), tuttiFloat32, tuttiSum, comm,
                           tuttiBlocking()));
    }
    const auto own = static_cast<double>(monotonic_ns() - begin_ns);
    return context_.board.max(context_.rank, own) / calls;
  }

  static void print(size_t bytes, int calls,
                    const std::array<std::vector<double>, kVariants>& times_ns) {
    std::printf("%9zu B, %5d calls a stretch, plain median %10.1f us", bytes, calls,
                median(times_ns[kPlain]) * 1e-3);
    for (const Variant variant : {kControl, kWindow}) {
      std::vector<double> ratios;
      for (size_t round = 0; round < times_ns[kPlain].size(); ++round) {
        ratios.push_back(times_ns[variant][round] / times_ns[kPlain][round]);
      }
      const Interval interval = median_interval(ratios);
      std::printf("; %s %.3f (%.3f .. %.3f), ratio of medians %.3f",
                  variant == kControl ? "control" : "window", median(ratios), interval.low,
                  interval.high, median(times_ns[variant]) / median(times_ns[kPlain]));
    }
    std::printf("\n");
  }

  const RankContext& context_;
  std::array<tuttiComm_t, kVariants> comms_{};
  tuttiWindow_t window_ = nullptr;
  std::vector<char> part_ = std::vector<char>(4096);
  std::vector<float> send_, recv_;
};

int run(int rounds, int ranks) {
  return run_crew({ranks, 1}, [&](const RankContext& context) {
    Rank rank(context);
    for (const size_t bytes : kSizes) rank.measure(bytes, rounds);
    return 0;
  });
}

}  // namespace
}  // namespace tutti::perf

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 12;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 4;
  if (rounds < 1 || ranks < 2) return tutti::perf::kExitUsage;
  return tutti::perf::run(rounds, ranks);
}
