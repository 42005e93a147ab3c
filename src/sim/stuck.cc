// Why a simulated call does not end: whom its ranks wait for.
#include <algorithm>

#include "src/base/decimal.h"
#include "src/sim/simulated_rank.h"
#include "src/sim/simulation.h"

namespace tutti::sim {

namespace {

constexpr size_t kMostSentences = 8;

std::string milliseconds(Time time) { return fixed_digits(nanoseconds(time) / 1e6, 6) + " ms"; }

}  // namespace

// "rank 3 waits for a message of rank 2 (lane 0, slice 5)".
std::string Simulation::describe_wait(uint32_t actor, uint32_t& awaited) const {
  const Rank& rank = ranks_[actor];
  for (uint32_t lane = 0; lane < cast_.actors[actor].plan.lanes.size(); ++lane) {
    const Want& want = rank.machine.want(lane);
    static constexpr const char* kWords[] = {
        "nothing",      "a signal of",           "a cell of",
        "a message of", "room for a message to", "the memory of its host"};
    if (want.kind == WantKind::kNothing) continue;
    std::string text = "rank " + std::to_string(cast_.actors[actor].rank) + " waits for " +
                       kWords[static_cast<int>(want.kind)];
    if (want.kind != WantKind::kCopy) {
      text += " rank " + std::to_string(want.peer);
      awaited = want.peer;
    }
    return text + " (lane " + std::to_string(lane) + ", slice " + std::to_string(want.slice) + ")";
  }
  return "rank " + std::to_string(cast_.actors[actor].rank) + " waits for nothing";
}

void Simulation::explain_stuck(Outcome& outcome) const {
  std::vector<bool> told(ranks_.size(), false);
  const auto first = std::find_if(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return !rank.is_done && !rank.machine.is_dead();
  });
  auto actor = static_cast<uint32_t>(first - ranks_.begin());
  while (actor < ranks_.size() && outcome.stuck.size() < kMostSentences) {
    const Rank& rank = ranks_[actor];
    const std::string name = "rank " + std::to_string(cast_.actors[actor].rank);
    if (rank.machine.is_dead() || rank.is_done || told[actor]) {
      const char* what = rank.is_done ? " has done its part" : " is dead";
      if (!told[actor]) outcome.stuck.push_back(name + what);
      break;
    }
    told[actor] = true;
    uint32_t awaited = ~0u;
    outcome.stuck.push_back(describe_wait(actor, awaited));
    if (awaited == ~0u) break;
    if (const std::string dead = dead_between(cast_.actors[actor].rank, awaited); !dead.empty()) {
      outcome.stuck.push_back(dead);
      break;
    }
    actor = cast_.actor_of[awaited];
  }
}

// In either direction, since what is sent is waited for, too.
std::string Simulation::dead_between(int rank, uint32_t other) const {
  std::string text;
  const auto look = [&](uint32_t id) {
    const NetworkLink& link = network_.link(id);
    if (link.dead_from > now() || !text.empty()) return;
    text = "the link " + network_.describe(id) + " is dead since " + milliseconds(link.dead_from);
  };
  network_.route(rank, static_cast<int>(other), look);
  network_.route(static_cast<int>(other), rank, look);
  return text;
}

}  // namespace tutti::sim
