// A call of a collective on a cluster that is not here: the plans that its ranks would run, on a
// virtual clock, over links that contend.
//
// It is exact for its model (docs/simulator.md has it): a cause never comes after its effect, and
// equal input gives equal results. Nothing is asked in vain: a rank goes on when what it waits for
// has happened.
//
// Threads: one at a time. Errors: kInvalidArgument for faults of what is not there; what cast()
// says. That ranks wait for ever, since a link or rank is dead, is no error but a result.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "src/sim/clock_machine.h"
#include "src/sim/costs.h"
#include "src/sim/events.h"
#include "src/sim/fold.h"
#include "src/sim/network.h"
#include "src/sim/path.h"
#include "src/sim/wires.h"

namespace tutti::sim {

struct Experiment {
  Job job;
  Costs costs;
  std::vector<RankFault> faults;
  Folding folding = Folding::kIfEqual;
  FoldLimits limits;
  std::vector<int> traced;  // ranks
};

/// The load of the links of one level and way.
struct LinkLoad {
  uint32_t link = 0;  // the busiest of them
  double bytes = 0;   // over it
  double total = 0;   // over all of them
  double capacity = 0;
};

struct Outcome {
  bool is_complete = true;
  Time end = 0;                     // when the last rank was done
  std::vector<Time> ends;           // by actor; kNever: it never was
  std::vector<LinkLoad> loads;      // those that carried something, from the innermost level
  std::vector<double> level_bytes;  // messages between ranks, by their common level
  std::vector<PathHop> path;        // why the last rank was done no earlier
  uint32_t last = 0;                // that rank's actor
  std::vector<Span> spans;          // of traced ranks
  std::vector<std::string> stuck;   // who waits for whom, until the cause; empty if complete
  uint64_t events = 0;
  Cast cast;

  int rank_of(uint32_t actor) const { return cast.actors[actor].rank; }
};

Result<Outcome> simulate(const Experiment& experiment, const Network& network);

class Simulation {
 public:
  Simulation(const Experiment& experiment, const Network& network, Cast cast);
  ~Simulation();
  Outcome run();

  // ---- for ClockMachine
  const Costs& costs() const { return experiment_.costs; }
  const Network& network() const { return network_; }
  const Player& actor(uint32_t actor) const { return cast_.actors[actor]; }
  size_t actors() const { return cast_.actors.size(); }
  uint32_t actor_of(uint32_t rank) const { return cast_.actor_of[rank]; }
  Time now() const { return agenda_.now(); }
  void wake_at(uint32_t actor, Time time) { agenda_.note(time, HappeningKind::kWake, actor); }
  Wires& wires() { return wires_; }
  uint32_t connection_of_send(uint32_t actor, const plan::Op& op);
  uint32_t connection_of_receive(uint32_t actor, const plan::Op& op);
  uint32_t add_hop(const PathHop& hop) { return hops_.add(hop); }
  /// One way, by the memory that both map.
  Time signal_latency(int rank, uint32_t peer, uint8_t& level) const;
  void raise_counter(uint32_t actor, uint32_t lane, uint64_t value, const KnownTime& known);
  void raise_flag(uint32_t actor, uint64_t cell, uint64_t flag, const KnownTime& known);
  /// When the counter had the value; kNever: not yet.
  KnownTime counter(uint32_t actor, uint32_t lane, uint64_t value) const;
  KnownTime flag(uint32_t actor, uint64_t cell, uint64_t flag) const;
  /// The lane of the waiter goes on when the want is raised.
  void put_aside(const Want& want, uint32_t waiter, uint32_t lane);
  void make_ready(uint32_t actor);
  void count_bytes(uint8_t level, double bytes) { level_bytes_[level] += bytes; }

 private:
  struct Rank;
  struct Sleeper {
    uint64_t value;
    uint32_t actor;
    uint32_t lane;
  };
  struct CounterStep {
    uint64_t value;
    KnownTime known;
  };
  /// Of a lane, as all that map the rank's memory see it.
  struct LaneCounter {
    std::vector<CounterStep> steps;  // rising
    std::vector<Sleeper> sleepers;
  };

  std::vector<double> core_speeds() const;
  ClockMachine::Speed speed_of(const Player& actor) const;
  void connect_wires();
  void wake(std::vector<Sleeper>& sleepers, uint64_t value);
  void advance(uint32_t actor);
  void run_ready();
  void handle(const Happening& event);
  Outcome conclude();
  void find_end(Outcome& outcome) const;
  void add_loads(Outcome& outcome) const;
  void explain_stuck(Outcome& outcome) const;
  std::string describe_wait(uint32_t actor, uint32_t& awaited) const;
  std::string dead_between(int rank, uint32_t other) const;

  const Experiment& experiment_;
  const Network& network_;
  Cast cast_;
  Agenda agenda_;
  Wires wires_;
  Hops hops_;
  std::deque<Rank> ranks_;  // by actor
  std::deque<uint32_t> ready_;
  std::vector<bool> is_ready_;  // by actor
  std::vector<double> level_bytes_;
  Time longest_latency_ = 0;
};

}  // namespace tutti::sim
