// Simulations that take seconds.
#include "src/sim/simulation_test.h"

namespace tutti::sim {
namespace {

using schedule::Collective;
using namespace tests;

TEST(LargeSimulation, OfARingOf1024RanksIsItsClosedForm) {
  const Network network = star(1024, 12.5, 5'000);
  Experiment wanted = experiment(Collective::kAllReduce, "ring", network, 1024 * 4096);
  wanted.costs = free_of_charge();
  wanted.folding = Folding::kSampled;  // of 1024 programs of 6000 operations some
  wanted.limits.sampled = 200'000;
  wanted.limits.proved = 1;
  const Outcome outcome = run(wanted, network);
  const uint64_t slices = outcome.cast.actors[0].plan.slices;
  const Time step = picoseconds(5'000) + picoseconds(4096.0 / slices / 12.5);
  EXPECT_EQ(outcome.end, slices * 2 * 1023 * step) << slices << " slices";
}

}  // namespace
}  // namespace tutti::sim
