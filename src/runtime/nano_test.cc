// Nano-batches: training_systems 3.18 (N1).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/nano.h"
#include "tutti/runtime/run_timeline.h"

namespace tutti::runtime {
namespace {

double units(int computing, int communication, int parts) {
  const Timeline timeline = nano_batches(
      layered(3, Nanoseconds(computing * 1000), Nanoseconds(communication * 1000), parts));
  EXPECT_TRUE(check(timeline).empty());
  return double(summarize(timeline, simulate(timeline)).makespan.value) / 1000;
}

// 3.18 (e), N1.
TEST(RuntimeNano, ThreeLayersTakeWhatTheFormulaSays) {
  EXPECT_EQ(units(4, 2, 1), 18);
  EXPECT_EQ(units(4, 2, 2), 13);
  EXPECT_EQ(units(4, 2, 4), 12.5);
  EXPECT_EQ(units(2, 4, 2), 13);
  EXPECT_EQ(units(2, 4, 4), 12.5);
  EXPECT_EQ(units(3, 3, 2), 10.5);
  EXPECT_EQ(units(3, 3, 4), 9.75);
}

// 3.18 (b): what depends is what intersects, also where operations are cut differently.
TEST(RuntimeNano, RangesDependWhereTheyIntersect) {
  NanoSpec spec;
  spec.ranks = 1;
  spec.tokens = 2048;
  spec.operations = {{"a", false, Nanoseconds(2048), {768}, {}},
                     {"b", false, Nanoseconds(2048), {512, 1024}, {0}}};
  const Timeline timeline = nano_batches(spec);
  ASSERT_EQ(timeline.tasks.size(), 5u);
  EXPECT_EQ(timeline.tasks[0].duration, Nanoseconds(768));
  EXPECT_EQ(timeline.tasks[2].after, (std::vector<int>{0}));     // 0-512
  EXPECT_EQ(timeline.tasks[3].after, (std::vector<int>{0, 1}));  // 512-1024
  EXPECT_EQ(timeline.tasks[4].after, (std::vector<int>{1}));     // 1024-2048
}

// 3.18 (e): with a share of 0.2 the network is half as fast; the longer of both decides.
TEST(RuntimeNano, TheShareMakesTheLongerOneShortest) {
  const std::vector<SharePoint> table{{0.1, 0.3}, {0.2, 0.5}, {0.8, 0.9}};
  const Admission even = admit(table, Nanoseconds(8000), Nanoseconds(5000));
  EXPECT_EQ(even.share, 0.2);
  EXPECT_EQ(even.time, Nanoseconds(10000));
  EXPECT_EQ(admit(table, Nanoseconds(100), Nanoseconds(9000)).share, 0.8);
  EXPECT_EQ(admit(table, Nanoseconds(9000), Nanoseconds(300)).share, 0.1);
}

TEST(RuntimeNano, SharesAreThreadBlocks) {
  EXPECT_EQ(blocks_of(0.2, 132), 26);
  EXPECT_EQ(blocks_of(0.3, 10), 3);
  EXPECT_EQ(blocks_of(0.001, 8), 1);
  EXPECT_EQ(blocks_of(1, 132), 132);
  EXPECT_REFUSED(blocks_of(0, 8), "outside of (0, 1]");
  EXPECT_REFUSED(blocks_of(0.5, 0), "give 1 or more");
}

// A runner's communicators get the limit: the library refuses one that it knows to be too high.
TEST(RuntimeNano, ARunKeepsToTheShare) {
  const Timeline timeline = nano_batches(layered(2, Nanoseconds(1000), Nanoseconds(1000), 2));
  run_ranks(2, [&](tuttiComm_t comm, int) {
    RunOptions options;
    options.most_ctas = 1 << 20;
    try {
      TimelineRunner runner(comm, timeline, options);
      ADD_FAILURE() << "a limit that cannot be";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("most_ctas is 1048576"), std::string::npos);
    }
    options.most_ctas = blocks_of(0.25, 132);
    TimelineRunner runner(comm, timeline, options);
    std::vector<char> buffer(1 << 20);
    EXPECT_NO_THROW(runner.run({[](const TimelineTask&) {},
                                [&](const TimelineTask& task) {
                                  return Payload{buffer.data(), buffer.data(),
                                                 static_cast<size_t>(task.bytes.value), tuttiUint8,
                                                 tuttiSum};
                                }}));
  });
}

// 3.18 (f).
TEST(RuntimeNano, RefusesRangesAndSharesThatCannotBe) {
  NanoSpec spec = layered(1, Nanoseconds(1), Nanoseconds(1), 2);
  spec.operations[0].cuts = {100};
  EXPECT_REFUSED(nano_batches(spec), "no multiple of the grain 128");
  spec.operations[0].cuts = {128, 128};
  EXPECT_REFUSED(nano_batches(spec), "cuts ascend within the batch");
  spec.operations[0].cuts = {256};
  EXPECT_REFUSED(nano_batches(spec), "cuts ascend within the batch");
  spec.operations[0].cuts = {};
  spec.operations[0].after = {1};
  EXPECT_REFUSED(nano_batches(spec), "name earlier ones");
  EXPECT_REFUSED(layered(0, Nanoseconds(1), Nanoseconds(1), 1), "1 or more of each");
  EXPECT_REFUSED(expect_within(std::vector<double>{0.6, 0.5}, 1), "admit fewer");
  EXPECT_NO_THROW(expect_within(std::vector<double>{0.6, 0.4}, 1));
  EXPECT_REFUSED(
      admit(std::vector<SharePoint>{{0.5, 0.5}, {0.2, 0.6}}, Nanoseconds(1), Nanoseconds(1)),
      "sort it");
  EXPECT_REFUSED(admit({}, Nanoseconds(1), Nanoseconds(1)), "at least one point");
  EXPECT_INFEASIBLE(admit(std::vector<SharePoint>{{0.5, 0.5}}, Nanoseconds(1), Nanoseconds(1), 0.4),
                    "no share");
}

// 3.18 (b), stage 1: without an overhead more parts are better; with one there is a best number.
TEST(RuntimeNano, TheSearchFindsTheBestCuts) {
  NanoSpec spec = layered(3, Nanoseconds(4000), Nanoseconds(2000), 4);
  const FoundCuts free = search_cuts(spec);
  EXPECT_TRUE(free.exhaustive);
  EXPECT_EQ(free.makespan, Nanoseconds(12500));
  spec.overhead = Nanoseconds(1);
  const FoundCuts cheap = search_cuts(spec);
  EXPECT_LE(cheap.makespan, Nanoseconds(12500 + 16));
  spec.overhead = Nanoseconds(100'000);
  EXPECT_EQ(search_cuts(spec).makespan, Nanoseconds(18000 + 6 * 100'000));
  for (const NanoOperation& operation : search_cuts(spec).spec.operations) {
    EXPECT_TRUE(operation.cuts.empty());
  }
}

TEST(RuntimeNano, ASearchOfManyOperationsIsNeverWorseThanHalves) {
  NanoSpec spec = layered(12, Nanoseconds(3000), Nanoseconds(3000), 8);
  spec.overhead = Nanoseconds(10);
  NanoSpec halves = layered(12, Nanoseconds(3000), Nanoseconds(3000), 2);
  halves.tokens = spec.tokens;
  halves.overhead = spec.overhead;
  for (NanoOperation& operation : halves.operations) operation.cuts = {spec.tokens / 2};
  const Timeline timeline = nano_batches(halves);
  NanoSearch search;
  search.trials = 3000;
  const FoundCuts found = search_cuts(spec, search);
  EXPECT_FALSE(found.exhaustive);
  EXPECT_LE(found.trials, 3000);
  EXPECT_LE(found.makespan, summarize(timeline, simulate(timeline)).makespan);
  EXPECT_EQ(found.spec.ranks, spec.ranks);
  const Timeline best = nano_batches(found.spec);
  EXPECT_TRUE(check(best).empty());
  EXPECT_EQ(summarize(best, simulate(best)).makespan, found.makespan);
  search.step = 7;
  EXPECT_REFUSED(search_cuts(spec, search), "no multiple of the grain");
}

}  // namespace
}  // namespace tutti::runtime
