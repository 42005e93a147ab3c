// A rank of a simulation: its walk, its machine, and what others see of it.
#pragma once

#include <unordered_map>
#include <vector>

#include "src/plan/walk.h"
#include "src/sim/simulation.h"

namespace tutti::sim {

struct Simulation::Rank {
  Rank(Simulation& simulation, uint32_t actor, const ClockMachine::Speed& speed, bool is_traced,
       const plan::Tuning& tuning)
      : machine(simulation, actor, speed, is_traced) {
    cursors.cells = plan::CellCursor(tuning.cells_per_region);
    const size_t lanes = simulation.actor(actor).plan.lanes.size();
    for (plan::LaneCursor& lane : cursors.lanes) {
      lane = {1, plan::RingCursor(tuning.region_bytes)};
    }
    counters.resize(lanes, {{CounterStep{1, {}}}, {}});
    walk.start(simulation.actor(actor).plan, cursors);
  }

  plan::Walk<ClockMachine> walk;
  plan::Cursors cursors;
  ClockMachine machine;
  uint32_t calls = 0;  // that are done
  bool is_done = false;
  std::vector<LaneCounter> counters;                // by lane
  std::unordered_map<uint64_t, CounterStep> flags;  // by cell
  std::unordered_map<uint64_t, std::vector<Sleeper>> flag_sleepers;
};

}  // namespace tutti::sim
