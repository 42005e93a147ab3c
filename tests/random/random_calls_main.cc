// random_calls: random calls, also point to point and one-sided, on several communicators, against
// the serial reference.
//
//   --seed S           what to draw from (default: from the clock)
//   --jobs N           jobs of --calls calls each (default 40)
//   --calls N          calls of a job (default 50)
//   --ranks MAX        jobs have 1 to MAX ranks (default 9)
//   --one-communicator each job has one, that of all its ranks
//   --job J            only job J of the seed: how a failure is run again
//   --deterministic    every reduction is deterministic
//   --no-large         no calls of 64 MiB
//   --devices          ranks have CUDA devices, and most calls are on their memory and streams
//   --processes        no two ranks share a process: a board has few hardware queues for each
//   --direct           the same on one host, and most calls are long and on registered memory: with
//                      --processes and --devices, which it implies
//   --calls-before N   TUTTI_CALLS_BEFORE of every rank
//   --every-pair       up to half as many jobs more until every pair of properties that can be was
//                      in a call; it is a failure if one was not
//   --verbose          a line for every job
//
// Exit status: 0 all calls were right, 1 one was not, 2 the command line is wrong.
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "tests/random/coverage.h"
#include "tests/random/pairs.h"
#include "tests/random/rank.h"
#include "tests/support/options.h"
#include "tests/support/single_copies.h"

namespace tutti::random_calls {
namespace {

struct Options {
  uint64_t seed = 0;
  uint64_t jobs = 40;
  std::optional<uint64_t> only;
  std::string calls_before = "0";
  Limits limits;
  bool every_pair = false;
  bool verbose = false;
};

bool read(int argc, char** argv, Options& options) {
  using testing_support::into;
  const auto only = [&](const std::string& text) {
    return testing_support::read_value(text, options.only.emplace());
  };
  options.seed = testing_support::now_ns() % 1'000'000;
  bool no_large = false;
  const bool understood = testing_support::read_options(
      argc, argv,
      {{"--seed", into(options.seed)},
       {"--jobs", into(options.jobs)},
       {"--job", only},
       {"--calls-before", into(options.calls_before)},
       {"--calls", into(options.limits.calls, 1, 1 << 20)},
       {"--ranks", into(options.limits.max_ranks, 1, testing_support::kMaxRanks)}},
      {{"--deterministic", &options.limits.deterministic},
       {"--no-large", &no_large},
       {"--devices", &options.limits.devices},
       {"--processes", &options.limits.processes},
       {"--direct", &options.limits.direct},
       {"--one-communicator", &options.limits.one_communicator},
       {"--every-pair", &options.every_pair},
       {"--verbose", &options.verbose}});
  options.limits.large = !no_large;
  options.limits.devices |= options.limits.direct;
  options.limits.processes |= options.limits.direct;
  options.limits.single_copies = testing_support::siblings_may_copy();
  return understood;
}

std::string replay(const Options& options, uint64_t job) {
  return "random_calls --seed " + std::to_string(options.seed) + " --calls " +
         std::to_string(options.limits.calls) + " --ranks " +
         std::to_string(options.limits.max_ranks) +
         (options.limits.deterministic ? " --deterministic" : "") +
         (options.limits.one_communicator ? " --one-communicator" : "") +
         (options.limits.large ? "" : " --no-large") +
         (options.limits.devices ? " --devices" : "") +
         (options.limits.processes ? " --processes" : "") +
         (options.limits.direct ? " --direct" : "") + " --calls-before " + options.calls_before +
         " --job " + std::to_string(job);
}

bool run_one(const Options& options, uint64_t number, Coverage& coverage, Pairs& pairs) {
  Job job = make_job(options.seed, number, options.limits);
  job.shape.set("TUTTI_CALLS_BEFORE", options.calls_before);
  if (options.verbose) std::printf("%s\n", describe(job).c_str());
  const testing_support::TeamResult result = run_job(job);
  if (result.ok) {
    coverage.add(job);
    pairs.add(job);
    return true;
  }
  std::printf("FAILED %s\n", describe(job).c_str());
  if (result.first_failed >= 0) {
    std::printf("  first: rank %d in %s\n", result.first_failed,
                describe_step(job, result.first_step).c_str());
  }
  std::printf("%s  again: %s\n", result.report.c_str(), replay(options, number).c_str());
  return false;
}

int run(const Options& options) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(options.seed));
  if (!options.limits.single_copies) {
    std::printf("windows between processes of a host are not on ordinary memory: %s\n",
                testing_support::kNoSingleCopies);
  }
  const uint64_t start_ns = testing_support::now_ns();
  Coverage coverage;
  Pairs pairs(options.limits.max_ranks);
  uint64_t failed = 0;
  const uint64_t first = options.only.value_or(0);
  const uint64_t least = options.only ? 1 : options.jobs;
  const uint64_t most = options.every_pair && !options.only ? least + least / 2 : least;
  uint64_t jobs = 0;
  for (; jobs < least || (jobs < most && !pairs.missing().empty()); ++jobs) {
    if (!run_one(options, first + jobs, coverage, pairs)) ++failed;
    std::fflush(stdout);
  }
  const double seconds = static_cast<double>(testing_support::now_ns() - start_ns) * 1e-9;
  std::printf("%s%s", coverage.table().c_str(), pairs.table().c_str());
  const std::vector<std::string> missing = pairs.missing();
  std::printf("%zu pairs were in no call\n", missing.size());
  for (const std::string& pair : missing) {
    if (options.every_pair) std::printf("  %s\n", pair.c_str());
  }
  std::printf("%llu calls in %llu jobs were right, %llu jobs failed, %.1f s\n",
              static_cast<unsigned long long>(coverage.calls()),
              static_cast<unsigned long long>(jobs - failed),
              static_cast<unsigned long long>(failed), seconds);
  return failed == 0 && (missing.empty() || !options.every_pair) ? 0 : 1;
}

}  // namespace
}  // namespace tutti::random_calls

int main(int argc, char** argv) {
  tutti::random_calls::Options options;
  if (!tutti::random_calls::read(argc, argv, options)) return 2;
  return tutti::random_calls::run(options);
}
