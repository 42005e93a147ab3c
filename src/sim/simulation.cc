#include "src/sim/simulation.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "src/sim/simulated_rank.h"

namespace tutti::sim {

namespace {

Status check(const Experiment& experiment, const Network& network) {
  const auto is_rank = [&](int rank) { return rank >= 0 && rank < network.ranks(); };
  const auto refuse = [&](int rank) {
    return Status::invalid_argument("there is no rank " + std::to_string(rank) + ": there are " +
                                    std::to_string(network.ranks()));
  };
  if (experiment.job.parameters.ranks != network.ranks()) {
    return Status::invalid_argument("a call of " + std::to_string(experiment.job.parameters.ranks) +
                                    " ranks on a network of " + std::to_string(network.ranks()));
  }
  for (const int rank : experiment.traced) {
    if (!is_rank(rank)) return refuse(rank);
  }
  for (const RankFault& fault : experiment.faults) {
    if (!is_rank(fault.rank)) return refuse(fault.rank);
    if (fault.factor > 0) continue;
    return Status::invalid_argument("rank " + std::to_string(fault.rank) +
                                    " is made slower by a factor above 0");
  }
  return {};
}

}  // namespace

Simulation::Simulation(const Experiment& experiment, const Network& network, Cast cast)
    : experiment_(experiment),
      network_(network),
      cast_(std::move(cast)),
      wires_(cast_, network, experiment.costs, agenda_, core_speeds()),
      level_bytes_(network.levels(), 0.0) {
  for (size_t level = 0; level < network.levels(); ++level) {
    const Time latency = picoseconds(network.level(level).latency_ns);
    if (network.level(level).maps) longest_latency_ = std::max(longest_latency_, latency);
  }
  connect_wires();
  is_ready_.resize(cast_.actors.size(), false);
  for (uint32_t i = 0; i < cast_.actors.size(); ++i) {
    const Player& actor = cast_.actors[i];
    const auto& traced = experiment.traced;
    const bool is_traced = std::any_of(traced.begin(), traced.end(), [&](int rank) {
      return cast_.actor_of[static_cast<size_t>(rank)] == i;
    });
    ranks_.emplace_back(*this, i, speed_of(actor), is_traced, experiment.job.tuning);
    make_ready(i);
  }
}

Simulation::~Simulation() = default;

ClockMachine::Speed Simulation::speed_of(const Player& actor) const {
  ClockMachine::Speed speed;
  for (const RankFault& fault : experiment_.faults) {
    if (fault.rank != actor.rank) continue;
    speed.factor *= fault.factor;
    speed.dead_from = std::min(speed.dead_from, fault.dead_from);
  }
  const int cores = experiment_.costs.cores;
  const int ranks = static_cast<int>(network_.group()->near_ranks(actor.rank).size());
  if (cores == 0 || ranks <= cores) return speed;
  const double share = static_cast<double>(ranks) / cores;
  speed.factor *= share;
  speed.turn = picoseconds(experiment_.costs.turn_ns * share);
  return speed;
}

std::vector<double> Simulation::core_speeds() const {
  std::vector<double> speeds;
  for (const Player& actor : cast_.actors) {
    speeds.push_back(1 / (experiment_.costs.copy_ns_per_byte * speed_of(actor).factor));
  }
  return speeds;
}

void Simulation::connect_wires() {
  wires_.on_arrived([this](const Wires::Post& post, const KnownTime& known) {
    ranks_[post.actor].machine.set_arrived(post.lane, post.ordinal, known);
  });
  wires_.on_sent([this](const Wires::Post& post, const KnownTime& known) {
    ranks_[post.actor].machine.set_sent(post.lane, post.ordinal, known);
  });
  wires_.on_copied([this](uint32_t actor) { ranks_[actor].machine.set_copied(now()); });
}

uint32_t Simulation::connection_of_send(uint32_t actor, const plan::Op& op) {
  return wires_.connection(actor, op.peer);
}

// The receiver may stand for many: its sender's op says to which rank the equal message goes.
uint32_t Simulation::connection_of_receive(uint32_t actor, const plan::Op& op) {
  const Player& receiver = cast_.actors[actor];
  const uint32_t sender = cast_.actor_of[op.peer];
  const uint32_t met = receiver.meets[static_cast<size_t>(&op - receiver.plan.ops.data())];
  return wires_.connection(sender, cast_.actors[sender].plan.ops[met].peer);
}

Time Simulation::signal_latency(int rank, uint32_t peer, uint8_t& level) const {
  const auto other = static_cast<int>(peer);
  if (rank == other) return 0;
  level = static_cast<uint8_t>(network_.group()->common_level(rank, other));
  return picoseconds(network_.level(level).latency_ns);
}

void Simulation::make_ready(uint32_t actor) {
  if (is_ready_[actor]) return;
  is_ready_[actor] = true;
  ready_.push_back(actor);
}

void Simulation::put_aside(const Want& want, uint32_t waiter, uint32_t lane) {
  Rank& rank = ranks_[want.actor];
  if (want.kind == WantKind::kCounter) {
    rank.counters[want.place].sleepers.push_back({want.value, waiter, lane});
  } else {
    rank.flag_sleepers[want.place].push_back({want.value, waiter, lane});
  }
}

void Simulation::wake(std::vector<Sleeper>& sleepers, uint64_t value) {
  std::erase_if(sleepers, [&](const Sleeper& sleeper) {
    if (sleeper.value > value) return false;
    ranks_[sleeper.actor].machine.forget(sleeper.lane);
    make_ready(sleeper.actor);
    return true;
  });
}

// Steps that all have seen are forgotten but for the last of them.
void Simulation::raise_counter(uint32_t actor, uint32_t lane, uint64_t value,
                               const KnownTime& known) {
  LaneCounter& counter = ranks_[actor].counters[lane];
  std::vector<CounterStep>& steps = counter.steps;
  size_t seen = 0;
  while (seen + 1 < steps.size() && steps[seen + 1].known.time + longest_latency_ <= now()) ++seen;
  // They are taken out many at a time, since all behind them move.
  if (2 * seen >= steps.size()) steps.erase(steps.begin(), steps.begin() + static_cast<long>(seen));
  steps.push_back({value, known});
  wake(counter.sleepers, value);
}

void Simulation::raise_flag(uint32_t actor, uint64_t cell, uint64_t flag, const KnownTime& known) {
  ranks_[actor].flags[cell] = {flag, known};
  const auto sleepers = ranks_[actor].flag_sleepers.find(cell);
  if (sleepers != ranks_[actor].flag_sleepers.end()) wake(sleepers->second, flag);
}

KnownTime Simulation::counter(uint32_t actor, uint32_t lane, uint64_t value) const {
  const std::vector<CounterStep>& steps = ranks_[actor].counters[lane].steps;
  const auto found = std::lower_bound(
      steps.begin(), steps.end(), value,
      [](const CounterStep& step, uint64_t wanted) { return step.value < wanted; });
  return found == steps.end() ? KnownTime{.time = kNever} : found->known;
}

KnownTime Simulation::flag(uint32_t actor, uint64_t cell, uint64_t flag) const {
  const auto found = ranks_[actor].flags.find(cell);
  const bool is_raised = found != ranks_[actor].flags.end() && found->second.value == flag;
  return is_raised ? found->second.known : KnownTime{.time = kNever};
}

void Simulation::advance(uint32_t actor) {
  Rank& rank = ranks_[actor];
  while (!rank.is_done) {
    const plan::Progress progress = rank.walk.advance(rank.machine);
    if (progress == plan::Progress::kBlocked || progress == plan::Progress::kFailed) return;
    if (progress == plan::Progress::kMoved) continue;
    if (++rank.calls == experiment_.job.calls) {
      rank.is_done = true;
    } else {
      rank.walk.start(cast_.actors[actor].plan, rank.cursors);
    }
  }
}

void Simulation::run_ready() {
  while (!ready_.empty()) {
    const uint32_t actor = ready_.front();
    ready_.pop_front();
    is_ready_[actor] = false;
    if (!ready_.empty()) __builtin_prefetch(&ranks_[ready_.front()]);
    advance(actor);
  }
}

void Simulation::handle(const Happening& event) {
  if (event.kind == HappeningKind::kWake) {
    make_ready(event.which);
  } else {
    wires_.handle(event);
  }
}

Outcome Simulation::run() {
  while (true) {
    do {
      run_ready();
      wires_.settle();
    } while (!ready_.empty());
    if (agenda_.empty()) break;
    agenda_.step();
    while (agenda_.has_now()) handle(agenda_.take());
  }
  return conclude();
}

Outcome Simulation::conclude() {
  Outcome outcome;
  outcome.events = agenda_.noted();
  outcome.level_bytes = level_bytes_;
  find_end(outcome);
  add_loads(outcome);
  if (!outcome.is_complete) explain_stuck(outcome);
  for (const Rank& rank : ranks_) {
    const std::vector<Span>& spans = rank.machine.spans();
    outcome.spans.insert(outcome.spans.end(), spans.begin(), spans.end());
  }
  outcome.cast = std::move(cast_);
  return outcome;
}

void Simulation::find_end(Outcome& outcome) const {
  for (uint32_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    outcome.ends.push_back(rank.is_done ? rank.machine.clock() : kNever);
    outcome.is_complete = outcome.is_complete && rank.is_done;
    if (rank.machine.clock() <= outcome.end && i > 0) continue;
    outcome.end = rank.machine.clock();
    outcome.last = i;
  }
  outcome.path = hops_.path(ranks_[outcome.last].machine.hop());
}

void Simulation::add_loads(Outcome& outcome) const {
  std::map<std::pair<uint8_t, LinkWay>, LinkLoad> loads;
  for (uint32_t i = 0; i < cast_.any_link.size(); ++i) {
    const double bytes = wires_.carried()[i];
    if (bytes == 0) continue;
    const NetworkLink& link = network_.link(cast_.any_link[i]);
    LinkLoad& load = loads[{link.level, link.way}];
    load.total += bytes * cast_.class_size[i];
    const auto busy = [](double carried, double capacity) {
      return capacity > 0 ? carried / capacity : 0;
    };
    if (load.bytes > 0 && busy(bytes, link.bytes_per_ns) <= busy(load.bytes, load.capacity)) {
      continue;
    }
    load.link = cast_.any_link[i];
    load.bytes = bytes;
    load.capacity = link.bytes_per_ns;
  }
  for (const auto& [key, load] : loads) outcome.loads.push_back(load);
}

Result<Outcome> simulate(const Experiment& experiment, const Network& network) {
  if (Status status = check(experiment, network); !status.ok()) return status;
  Result<Cast> made =
      cast(experiment.job, network, experiment.faults, experiment.folding, experiment.limits);
  if (!made.ok()) return made.status();
  return Simulation(experiment, network, std::move(made).value()).run();
}

}  // namespace tutti::sim
