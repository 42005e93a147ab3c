// ranks: every number of ranks completes every collective, with checked results; and what a small
// all_reduce of many ranks takes.
//
//   --from N  --to N       numbers of ranks (1 to 64), as threads of one process
//   --processes 0|1        as forked processes
//   --network default|tcp
//   --median N             instead: the median of an 8-byte all_reduce of N ranks
//
// Exit status: 0 all was right, 1 it was not, 2 the command line is wrong.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/random/rank.h"
#include "tests/support/options.h"

namespace tutti::ranks_test {
namespace {

using random_calls::Batch;
using random_calls::Call;
using random_calls::Job;
using reference::Collective;
using testing_support::Member;
using testing_support::TeamShape;

constexpr uint64_t kLimitNs = 300'000'000'000;

struct Options {
  int from = 1;
  int to = 16;
  bool processes = false;
  testing_support::Network network = testing_support::Network::kDefault;
  int median = 0;
};

TeamShape shape_of(const Options& options, int ranks) {
  return TeamShape::of(ranks, !options.processes, options.network);
}

Call make_call(Collective collective, int ranks, uint64_t count) {
  Call call;
  call.problem.collective = collective;
  call.problem.ranks = ranks;
  call.problem.count = collective == Collective::kBarrier ? 0 : count;
  call.problem.root = reference::is_rooted(collective) ? ranks / 2 : 0;
  reference::spread_counts(call.problem, false);
  call.problem.exact = true;
  call.values = random_calls::Values::kExact;
  call.seed = static_cast<uint64_t>(ranks) * 2 + 1;
  return call;
}

// Small and uneven, then large enough to be staged in frames or read directly.
Job make_job(const Options& options, int ranks) {
  Job job;
  job.number = static_cast<uint64_t>(ranks);
  job.network = options.network;
  job.shape = shape_of(options, ranks);
  job.communicators.push_back(random_calls::Communicator::of_all(ranks));
  for (const uint64_t count : {uint64_t{3}, uint64_t{1009}}) {
    Batch batch;
    for (int i = 0; i < reference::kCollectives; ++i) {
      batch.calls.push_back(make_call(static_cast<Collective>(i), ranks, count));
    }
    job.batches.push_back(batch);
  }
  Call ring;
  ring.kind = random_calls::Kind::kPairs;
  for (int rank = 0; rank < ranks; ++rank) {
    ring.transfers.push_back({rank, (rank + 1) % ranks, 1000, tuttiInt32});
  }
  job.batches.push_back({random_calls::Way::kBlocking, {ring}});
  return job;
}

bool run_all(const Options& options) {
  int failed = 0;
  for (int ranks = options.from; ranks <= options.to; ++ranks) {
    const Job job = make_job(options, ranks);
    const uint64_t start_ns = testing_support::now_ns();
    const auto result = random_calls::run_job(job);
    const double seconds = static_cast<double>(testing_support::now_ns() - start_ns) * 1e-9;
    if (!result.ok) {
      ++failed;
      std::printf("FAILED %d ranks\n%s", ranks, result.report.c_str());
    } else if (ranks % 8 == 0 || ranks == options.to) {
      std::printf("%d ranks: %zu calls in %.2f s\n", ranks, job.calls(), seconds);
    }
    std::fflush(stdout);
  }
  std::printf("%d to %d ranks as %s, network %s: %d failed\n", options.from, options.to,
              options.processes ? "processes" : "threads", name_of(options.network), failed);
  return failed == 0;
}

void time_calls(Member& member) {
  constexpr int kWarm = 200, kTimed = 2000;
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  if (!member.take_id(id)) return;
  if (tuttiCommInitRank(&comm, member.ranks(), id, member.rank()) != tuttiSuccess) {
    return member.fail(tuttiGetLastError(nullptr));
  }
  std::vector<uint64_t> times;
  for (int i = 0; i < kWarm + kTimed; ++i) {
    const int64_t send = member.rank() + i;
    int64_t recv = -1;
    const uint64_t start_ns = testing_support::now_ns();
    const tuttiResult_t result =
        tuttiAllReduce(&send, &recv, 1, tuttiInt64, tuttiSum, comm, tuttiBlocking());
    if (i >= kWarm) times.push_back(testing_support::now_ns() - start_ns);
    const int64_t n = member.ranks();
    if (result != tuttiSuccess) return member.fail(tuttiGetLastError(comm));
    if (recv != n * (n - 1) / 2 + n * i) return member.fail("a wrong sum");
  }
  std::sort(times.begin(), times.end());
  member.board().numbers[member.rank()].store(times[times.size() / 2]);
  if (member.rank() == 0) {
    std::printf("8-byte all_reduce of %d ranks: median %.1f us\n", member.ranks(),
                static_cast<double>(times[times.size() / 2]) * 1e-3);
  }
  tuttiCommDestroy(comm);
}

bool run_median(const Options& options) {
  const auto result = testing_support::run_team(
      shape_of(options, options.median), time_calls,
      [](uint64_t) { return std::string("timed calls"); }, kLimitNs);
  if (!result.ok) std::printf("%s", result.report.c_str());
  return result.ok;
}

bool read(int argc, char** argv, Options& options) {
  using testing_support::into;
  return testing_support::read_options(argc, argv,
                                       {{"--from", into(options.from, 1)},
                                        {"--to", into(options.to, 1, testing_support::kMaxRanks)},
                                        {"--processes", into(options.processes)},
                                        {"--network", into(options.network)},
                                        {"--median", into(options.median)}});
}

}  // namespace
}  // namespace tutti::ranks_test

int main(int argc, char** argv) {
  tutti::ranks_test::Options options;
  if (!tutti::ranks_test::read(argc, argv, options)) return 2;
  const bool fine = options.median > 0 ? tutti::ranks_test::run_median(options)
                                       : tutti::ranks_test::run_all(options);
  return fine ? 0 : 1;
}
