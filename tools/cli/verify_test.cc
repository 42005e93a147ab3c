#include "tools/cli/verify.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "src/registry/algorithms.h"
#include "src/schedule/builder.h"
#include "tools/cli/verify_sweep.h"
#include "tools/verifier/mutant.h"

namespace tutti::cli {
namespace {

using namespace schedule;

// A broadcast down a line, right for any number of ranks but `kWrongRanks`.
constexpr int kWrongRanks = 5;

Shape line_shape(const Parameters& p) {
  Shape shape;
  shape.collective = Collective::kBroadcast;
  shape.ranks = p.ranks;
  shape.root = p.root;
  shape.lanes = p.lanes;
  shape.input = shape.output = Partition::equal(1);
  return shape;
}

Schedule line_schedule(const Parameters& p, int rank) {
  Builder b(rank);
  const int place = (rank - p.root + p.ranks) % p.ranks;
  const int last = p.ranks == kWrongRanks ? p.ranks - 2 : p.ranks - 1;
  if (place == 0) b.copy(output(0), input(0));
  if (place != 0 && place <= last) b.receive(output(0), (rank + p.ranks - 1) % p.ranks);
  if (place < last) b.send(place == 0 ? input(0) : output(0), (rank + 1) % p.ranks);
  return std::move(b).finish();
}

Cost line_cost(const Parameters& p) {
  Cost cost;
  if (p.ranks == 1) return cost;
  cost.depth = static_cast<uint32_t>(p.ranks - 1);
  cost.messages = 1;
  cost.bytes = cost.published = {1, 1};
  cost.moved = {p.ranks == 2 ? 1u : 2u, 1};
  cost.work = {2 * static_cast<uint64_t>(p.ranks - 1), 1};
  return cost;
}

Algorithm line() {
  Algorithm algorithm;
  algorithm.collective = Collective::kBroadcast;
  algorithm.name = "line";
  algorithm.shape = line_shape;
  algorithm.schedule = line_schedule;
  algorithm.cost = line_cost;
  return algorithm;
}

Findings sweep_line(std::vector<int> ranks) {
  static const Algorithm algorithm = line();
  const Algorithm* algorithms[] = {&algorithm};
  SweepOptions options;
  options.ranks = std::move(ranks);
  options.threads = 2;
  return sweep(algorithms, options).at(0);
}

TEST(Sweep, SumsUpWhatIsRight) {
  const Findings found = sweep_line({1, 2, 3});
  EXPECT_EQ(found.failed_ranks, 0) << found.failure;
  EXPECT_EQ(found.cases, 2u * (1 + 2 + 3));  // every root, both placements
  EXPECT_EQ(found.ranks[0], (std::set<int>{1, 2, 3}));
  EXPECT_EQ(found.ranks[1], (std::set<int>{1, 2, 3}));
  EXPECT_EQ(found.least_credit, 0u);
}

TEST(Sweep, FindsTheSmallestCounterExample) {
  const Findings found = sweep_line({7, kWrongRanks, 4});
  EXPECT_EQ(found.failed_ranks, kWrongRanks);
  EXPECT_NE(found.failure.find("broadcast/line, 5 ranks"), std::string::npos) << found.failure;
}

TEST(Sweep, ComparesTheCost) {
  Algorithm algorithm = line();
  algorithm.cost = [](const Parameters&) { return Cost{}; };
  const Algorithm* algorithms[] = {&algorithm};
  SweepOptions options;
  options.ranks = {3};
  const Findings found = sweep(algorithms, options).at(0);
  EXPECT_NE(found.failure.find("cost: declared depth 0"), std::string::npos) << found.failure;
}

TEST(Sweep, BelievesNoDeclaredOrder) {
  Algorithm algorithm = *registry::find(Collective::kAllReduce, "ring");
  algorithm.canonical = always;
  const Algorithm* algorithms[] = {&algorithm};
  SweepOptions options;
  options.ranks = {2, 3, 4};
  const Findings found = sweep(algorithms, options).at(0);
  EXPECT_EQ(found.failed_ranks, 3);
  EXPECT_NE(found.failure.find("declared to be canonical"), std::string::npos) << found.failure;
}

TEST(Sweep, ComparesTheLoadsOfTrees) {
  Algorithm algorithm = *registry::find(Collective::kAllToAll, "hierarchical");
  algorithm.loads = [](const Parameters& p) {
    return LevelLoads{std::vector<uint32_t>(p.tree->levels(), 1), {}};
  };
  const Algorithm* algorithms[] = {&algorithm};
  SweepOptions options;
  options.ranks = {1, 4, 6};
  const Findings found = sweep(algorithms, options).at(0);
  EXPECT_EQ(found.failed_ranks, 4);
  EXPECT_NE(found.failure.find(" levels: ("), std::string::npos) << found.failure;
  EXPECT_NE(found.failure.find("loads: declared"), std::string::npos) << found.failure;
}

struct Outcome {
  int status = 0;
  std::string output;
};

Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "verify");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.status = verify_main(static_cast<int>(arguments.size()), argv.data());
  outcome.output = testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  return outcome;
}

Outcome run_text(const std::string& text) {
  const std::string path = testing::TempDir() + "verify." + std::to_string(getpid()) + ".schedule";
  std::ofstream(path) << text;
  const Outcome outcome = run({"--text", path});
  std::remove(path.c_str());
  return outcome;
}

TEST(VerifyMain, ProvesWhatIsRegistered) {
  const Outcome outcome = run({"barrier", "--ranks", "1-9"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("proved"), std::string::npos) << outcome.output;
}

TEST(VerifyMain, RefusesWrongCommandLines) {
  EXPECT_EQ(run({"no_such_collective"}).status, 2);
  EXPECT_EQ(run({"--no-such-flag"}).status, 2);
  for (const char* ranks : {"0", "x", "3-", "3-2", "-3", "1-99999999", "1-3,5"}) {
    EXPECT_EQ(run({std::string("--ranks=") + ranks}).status, 2) << ranks;
  }
  EXPECT_EQ(run({"--text", "/no/such/file"}).status, 2);
  EXPECT_EQ(run({"--help"}).status, 0);
}

TEST(VerifyMain, ProvesTexts) {
  Parameters p;
  for (int ranks : {4, kWrongRanks}) {
    p.ranks = ranks;
    const ScheduleSet set = generate(line(), p);
    const Outcome outcome = run_text(print(set.shape, set.schedules));
    EXPECT_EQ(outcome.status, ranks == kWrongRanks ? 1 : 0) << outcome.output;
  }
  const Outcome broken = run_text("tutti-schedule 1\ncollective juggle\n");
  EXPECT_EQ(broken.status, 1);
  EXPECT_NE(broken.output.find("line 2, column 12"), std::string::npos) << broken.output;
}

TEST(VerifyMain, RefusesMutants) {
  const Outcome outcome = run({"all_reduce/two_shot", "--mutants"});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find(" 0 survived"), std::string::npos) << outcome.output;
}

}  // namespace
}  // namespace tutti::cli
