#include "src/sim/fluid.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

namespace tutti::sim {
namespace {

using Path = std::vector<LinkUse>;

/// When each flow is due, if nothing changes any more.
std::map<uint32_t, Time> dues(Fluid& fluid, Time now) {
  std::map<uint32_t, Time> found;
  for (const Fluid::Due& due : fluid.settle(now)) found[due.flow] = due.time;
  return found;
}

TEST(Fluid, SharesALinkEvenly) {
  Fluid fluid({2.0});
  const Path path = {{0, 1}};
  const uint32_t one = fluid.add(path, 1000, 0);
  EXPECT_EQ(dues(fluid, 0)[one], picoseconds(500));
  const uint32_t other = fluid.add(path, 1000, 0);
  EXPECT_EQ(dues(fluid, 0),
            (std::map<uint32_t, Time>{{one, picoseconds(1000)}, {other, picoseconds(1000)}}));
}

// The example of Bertsekas and Gallager: who cannot use its share leaves it to the others.
TEST(Fluid, IsMaxMinFair) {
  Fluid fluid({1.0, 3.0});
  const Path both = {{0, 1}, {1, 1}}, first = {{0, 1}}, second = {{1, 1}};
  const uint32_t a = fluid.add(both, 100, 0), b = fluid.add(first, 100, 0),
                 c = fluid.add(second, 100, 0);
  const auto found = dues(fluid, 0);
  EXPECT_EQ(found.at(a), picoseconds(200));
  EXPECT_EQ(found.at(b), picoseconds(200));
  EXPECT_EQ(found.at(c), picoseconds(100 / 2.5));
}

TEST(Fluid, KeepsWhatAFlowHasDoneWhenRatesChange) {
  Fluid fluid({1.0});
  const Path path = {{0, 1}};
  const uint32_t one = fluid.add(path, 1000, 0);
  fluid.settle(0);
  const uint32_t other = fluid.add(path, 1000, picoseconds(400));
  EXPECT_EQ(dues(fluid, picoseconds(400))[one], picoseconds(400 + 1200));
  EXPECT_EQ(fluid.left(one, picoseconds(1000)), 300);
  fluid.remove(one);
  EXPECT_EQ(dues(fluid, picoseconds(1600))[other], picoseconds(1600 + 400));
}

TEST(Fluid, StopsWhereItIsAskedTo) {
  Fluid fluid({1.0});
  const Path path = {{0, 1}};
  const uint32_t flow = fluid.add(path, 1000, 0);
  fluid.set_stop(flow, 300);
  EXPECT_EQ(dues(fluid, 0)[flow], picoseconds(700));
  fluid.set_stop(flow, 0);
  EXPECT_EQ(dues(fluid, picoseconds(700))[flow], picoseconds(1000));
}

TEST(Fluid, NeverEndsOnADeadLink) {
  Fluid fluid({1.0});
  const Path path = {{0, 1}};
  const uint32_t flow = fluid.add(path, 1000, 0);
  fluid.settle(0);
  const uint32_t before = fluid.version(flow);
  fluid.set_capacity(0, 0);
  EXPECT_EQ(dues(fluid, picoseconds(10))[flow], kNever);
  EXPECT_NE(fluid.version(flow), before);
}

TEST(Fluid, GivesAFlowThatCountsForSeveralTheRateOfEach) {
  Fluid whole({7.0, 3.0}), folded({7.0, 3.0});
  const Path path = {{0, 1}, {1, 1}}, other = {{0, 1}};
  std::vector<uint32_t> flows;
  for (int i = 0; i < 3; ++i) flows.push_back(whole.add(path, 1000, 0));
  const uint32_t alone = whole.add(other, 1000, 0);
  const Path three = {{0, 3}, {1, 3}};
  const uint32_t for_three = folded.add(three, 1000, 0), last = folded.add(other, 1000, 0);
  auto every = dues(whole, 0);
  auto few = dues(folded, 0);
  for (const uint32_t flow : flows) EXPECT_EQ(every[flow], few[for_three]);
  EXPECT_EQ(every[alone], few[last]);
}

TEST(Fluid, WithoutLinksIsBoundedByNothing) {
  Fluid fluid(std::vector<double>{});
  const uint32_t flow = fluid.add({}, 1e12, 5);
  EXPECT_EQ(dues(fluid, 5)[flow], 5u);
}

}  // namespace
}  // namespace tutti::sim
