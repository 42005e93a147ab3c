#include "tests/consensus/simulation.h"

#include <algorithm>
#include <utility>

namespace tutti::consensus {
namespace {

constexpr uint64_t kFaultyTime = 30 * kSimulatedRetry;  // faults begin before this
constexpr uint32_t kFirstNewcomer = 1000;

MemberId pick(const View& view, Prng& random) {
  return view.members[random.below(view.members.size())];
}

Wish draw_wish(const std::vector<MemberId>& members, uint32_t newcomers, Prng& random) {
  Wish wish;
  if (newcomers > 0 && random.below(2) == 0) {
    wish.join = 1 + static_cast<uint32_t>(random.below(newcomers));
  }
  if (random.below(4) != 0) return wish;
  wish.who = Wish::Leave::kNamed;
  for (const MemberId member : members) {
    const bool leaves = random.below(4) == 0 && wish.leave.size() + 1 < members.size();
    if (leaves) wish.leave.push_back(member);
  }
  return wish;
}

}  // namespace

Scenario Scenario::draw(uint64_t seed) {
  constexpr uint64_t kMostMembers = 9, kMostDeaths = 3;
  Prng random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.members = 2 + static_cast<uint32_t>(random.below(kMostMembers - 1));
  scenario.newcomers = static_cast<uint32_t>(random.below(3));
  scenario.deaths = static_cast<uint32_t>(random.below(kMostDeaths + 1));
  scenario.edits = 1 + static_cast<uint32_t>(random.below(2));
  scenario.judge = random.below(2) == 0 ? Judge::kKernel : Judge::kMajority;
  scenario.loss = random.below(2) == 0 ? 0 : 0.4 * random.unit();
  scenario.splits = random.below(3) == 0;
  scenario.suspects = scenario.judge == Judge::kMajority && random.below(4) == 0;
  std::vector<MemberId> members;
  for (uint32_t i = 0; i < scenario.members; ++i) members.push_back(numbered(i));
  scenario.wish = draw_wish(members, scenario.newcomers, random);
  return scenario;
}

Simulation::Simulation(const Scenario& scenario, const Rules& rules)
    : scenario_(scenario), rules_(rules), random_(scenario.seed ^ 0x51a7) {
  for (uint32_t i = 0; i < scenario.members; ++i) first_.members.push_back(numbered(i));
  // Ranks in another order than ids, so that the least member is not always rank 0.
  for (size_t i = first_.members.size(); i > 1; --i) {
    std::swap(first_.members[i - 1], first_.members[random_.below(i)]);
  }
  present_[0] = first_;
  for (const MemberId member : first_.members) nodes_[member];
  for (uint32_t i = 0; i < scenario.newcomers; ++i) {
    const MemberId newcomer = numbered(kFirstNewcomer + i);
    nodes_[newcomer].joiner =
        std::make_unique<Joiner>(first_, newcomer, "card " + std::to_string(i), kSimulatedRetry);
  }
  plan_faults();
}

void Simulation::plan_faults() {
  constexpr uint64_t kMostSteps = 60, kSpread = 6 * kSimulatedRetry;
  for (auto& [member, node] : nodes_) {
    put({random_.below(kSpread), 0, Event::Kind::kBegin, member, {}, nullptr});
  }
  for (uint32_t i = 0; i < scenario_.deaths; ++i) {
    nodes_[pick(first_, random_)].steps_to_live = random_.below(kMostSteps);
  }
  if (scenario_.splits) {
    split_ = true;
    for (const auto& [member, node] : nodes_) {
      if (random_.below(2) == 0) one_side_.insert(member);
    }
  }
  if (scenario_.suspects) {
    const MemberId suspect = pick(first_, random_);
    suspected_.insert(suspect);
    for (const auto& [member, node] : nodes_) {
      if (member == suspect || random_.below(2) == 0) continue;
      put({random_.below(kFaultyTime), 0, Event::Kind::kNotice, member, suspect, nullptr});
    }
  }
  last_fault_ = random_.below(kFaultyTime);
  put({last_fault_, 0, Event::Kind::kHeal, {}, {}, nullptr});
}

void Simulation::put(Event event) {
  event.number = events_++;
  queue_.push(std::move(event));
}

void Simulation::run() {
  while (!queue_.empty() && violated_.empty()) {
    const Event event = queue_.top();
    queue_.pop();
    // A member that has not decided by then never stops asking.
    if (healed_ && event.time > last_fault_ + kSimulatedBound) break;
    now_ = event.time;
    handle(event);
  }
  if (violated_.empty()) judge_end();
}

void Simulation::handle(const Event& event) {
  if (event.kind == Event::Kind::kHeal) {
    healed_ = true;
    split_ = false;
    last_fault_ = std::max(last_fault_, now_);
    return;
  }
  Node& node = nodes_[event.node];
  if (node.dead) return;
  switch (event.kind) {
    case Event::Kind::kBegin:
      begin(event.node);
      break;
    case Event::Kind::kDeliver:
      deliver(node, *event.message);
      break;
    case Event::Kind::kNotice:
      for (const auto& edit : node.edits) edit->mark_dead(event.about, now_);
      break;
    case Event::Kind::kTick:
      for (const auto& edit : node.edits) edit->tick(now_);
      if (node.joiner) node.joiner->tick(now_);
      break;
    case Event::Kind::kHeal:
      break;
  }
  after_step(event.node);
}

void Simulation::begin(MemberId member) {
  Node& node = nodes_[member];
  if (node.joiner) {
    node.joiner->tick(now_);
    return;
  }
  if (node.edits.empty()) begin_edit(member, first_);
}

void Simulation::begin_edit(MemberId member, const View& present) {
  const Wish wish = present.epoch == 0 ? scenario_.wish : Wish{};
  const auto& leave = wish.leave;
  if (std::find(leave.begin(), leave.end(), member) != leave.end()) return;
  Terms terms{present, member, scenario_.judge, kSimulatedRetry,
              scenario_.seed * 31 + uint64_t{member.number} * 7 + present.epoch};
  Node& node = nodes_[member];
  node.edits.push_back(std::make_unique<Agreement>(std::move(terms), rules_));
  const Status status = node.edits.back()->begin(wish, now_);
  if (!status.ok()) fail("a sound wish is refused: " + std::string(status.message()));
  // Deaths that were noticed before this edit began.
  for (const auto& [other, state] : nodes_) {
    const bool noticed = state.dead && random_.below(2) == 0;
    if (state.dead && !noticed) {
      put({now_ + random_.below(kSimulatedRetry), 0, Event::Kind::kNotice, member, other, nullptr});
    }
    if (noticed) node.edits.back()->mark_dead(other, now_);
  }
}

void Simulation::deliver(Node& node, const EditMessage& message) {
  for (const auto& edit : node.edits) edit->receive(message, now_);
  if (node.joiner) node.joiner->receive(message);
}

// A member that dies may have sent some of what it had to say.
void Simulation::after_step(MemberId member) {
  inspect(member);
  Node& node = nodes_[member];
  std::vector<Envelope> envelopes;
  uint64_t wake = Agreement::kNever;
  for (const auto& edit : node.edits) {
    for (Envelope& envelope : edit->take_messages()) envelopes.push_back(std::move(envelope));
    wake = std::min(wake, edit->wake_at());
  }
  if (node.joiner) {
    for (Envelope& envelope : node.joiner->take_messages()) {
      envelopes.push_back(std::move(envelope));
    }
    wake = std::min(wake, node.joiner->wake_at());
  }
  const bool dies = node.steps_to_live-- == 0;
  send_all(member, std::move(envelopes), dies ? random_.below(8) : ~size_t{0});
  if (dies) {
    kill(member);
    return;
  }
  if (wake != Agreement::kNever) {
    put({std::max(wake, now_ + 1), 0, Event::Kind::kTick, member, {}, nullptr});
  }
}

void Simulation::send_all(MemberId from, std::vector<Envelope> envelopes, size_t limit) {
  for (Envelope& envelope : envelopes) {
    if (limit-- == 0) return;
    send(from, std::move(envelope));
  }
}

void Simulation::send(MemberId from, Envelope envelope) {
  constexpr uint64_t kLongDelay = 8 * kSimulatedRetry;
  if (nodes_.count(envelope.to) == 0) {
    fail("a message goes to a member that nobody has named");
    return;
  }
  const bool cut = split_ && one_side_.count(from) != one_side_.count(envelope.to);
  if (cut || (!healed_ && random_.unit() < scenario_.loss)) return;
  const auto message = std::make_shared<const EditMessage>(std::move(envelope.message));
  trace_ = (trace_ ^ (now_ * 31 + uint64_t{from.number} * 7 + uint64_t{envelope.to.number} * 3 +
                      message->ballot.counter * 1009 + static_cast<uint64_t>(message->kind))) *
           0x100000001b3;
  const uint64_t copies = !healed_ && random_.below(8) == 0 ? 2 : 1;
  for (uint64_t i = 0; i < copies; ++i) {
    const bool late = !healed_ && random_.below(10) == 0;
    const uint64_t delay = 1 + random_.below(late ? kLongDelay : kSimulatedDelay);
    put({now_ + delay, 0, Event::Kind::kDeliver, envelope.to, {}, message});
  }
}

void Simulation::kill(MemberId member) {
  nodes_[member].dead = true;
  last_fault_ = std::max(last_fault_, now_);
  notice_deaths_of(member);
}

void Simulation::notice_deaths_of(MemberId member) {
  constexpr uint64_t kNoticed = 3 * kSimulatedRetry;
  for (const auto& [other, node] : nodes_) {
    if (other == member || node.dead) continue;
    put({now_ + 1 + random_.below(kNoticed), 0, Event::Kind::kNotice, other, member, nullptr});
  }
}

// Looks at what a member has adopted, and lets it begin the next edit.
void Simulation::inspect(MemberId member) {
  Node& node = nodes_[member];
  if (node.joiner && node.joiner->adopted()) {
    const View& view = *node.joiner->adopted();
    const auto known = adopted_.find(view.epoch);
    if (known == adopted_.end() || known->second != view) fail("a newcomer learnt another view");
    return;
  }
  if (node.edits.empty() || !node.edits.back()->adopted()) return;
  const View view = *node.edits.back()->adopted();
  const uint32_t previous = static_cast<uint32_t>(node.edits.size()) - 1;
  const auto [known, is_first] = adopted_.emplace(previous + 1, view);
  if (known->second != view) {
    fail("two views of epoch " + std::to_string(previous + 1) + " are adopted");
    return;
  }
  if (is_first) {
    ++adoptions_;
    judge_view(view, present_[previous], previous == 0 ? scenario_.wish : Wish{});
    present_[previous + 1] = view;
  }
  if (node.edits.size() < scenario_.edits && view.holds(member)) begin_edit(member, view);
}

void Simulation::judge_view(const View& view, const View& previous, const Wish& wish) {
  if (view.epoch != previous.epoch + 1 || view.previous != previous.digest()) {
    fail("a view is adopted that does not follow the present one");
    return;
  }
  size_t joined = 0;
  for (const MemberId member : view.members) {
    if (previous.holds(member)) continue;
    ++joined;
    if (nodes_.count(member) == 0 || !nodes_[member].joiner) fail("a stranger has joined");
  }
  if (joined != wish.join || view.newcomers.size() != joined) {
    fail("another number has joined than was wanted");
  }
  for (const MemberId member : previous.members) {
    if (view.holds(member)) continue;
    const auto& leave = wish.leave;
    const bool named = std::find(leave.begin(), leave.end(), member) != leave.end();
    const bool gone = nodes_[member].dead || suspected_.count(member) != 0;
    if (wish.who == Wish::Leave::kNamed ? !named : !gone) fail("a living member is removed");
  }
}

// Suspected members count as dead here: others do not ask them.
bool Simulation::can_decide(const View& present, const Wish& wish) const {
  std::set<MemberId> alive, dead;
  uint32_t newcomers = 0;
  for (const MemberId member : present.members) {
    const bool gone = nodes_.at(member).dead || suspected_.count(member) != 0;
    (gone ? dead : alive).insert(member);
  }
  for (const auto& [member, node] : nodes_) newcomers += node.joiner && !node.dead ? 1 : 0;
  const Terms terms{present, {}, scenario_.judge, 1, 0};
  return !alive.empty() && newcomers >= wish.join && Rules().decides(terms, wish, alive, dead);
}

void Simulation::judge_end() {
  for (uint32_t epoch = 0; epoch < scenario_.edits; ++epoch) {
    const auto present = present_.find(epoch);
    if (present == present_.end()) return;
    const Wish wish = epoch == 0 ? scenario_.wish : Wish{};
    if (!can_decide(present->second, wish)) return;
    // A newcomer takes part in no later edit of this simulation.
    if (epoch > 0 && !present->second.newcomers.empty()) return;
    for (const MemberId member : staying(wish, present->second)) {
      const Node& node = nodes_.at(member);
      if (node.dead || suspected_.count(member) != 0) continue;
      const bool decided = node.edits.size() > epoch && node.edits[epoch]->adopted();
      if (!decided) {
        fail("member " + std::to_string(member.number) + " has not decided epoch " +
             std::to_string(epoch + 1) + " long after the last fault");
        return;
      }
    }
    const auto view = adopted_.find(epoch + 1);
    if (view == adopted_.end()) return;  // everybody who stays is dead
    for (const Newcomer& newcomer : view->second.newcomers) {
      const Node& node = nodes_.at(newcomer.member);
      if (!node.dead && !node.joiner->adopted()) fail("a newcomer was not told that it joined");
    }
  }
}

void Simulation::fail(const std::string& what) {
  if (violated_.empty()) {
    violated_ =
        "seed " + std::to_string(scenario_.seed) + " at " + std::to_string(now_) + ": " + what;
  }
}

std::string first_violation(const Rules& rules, uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Simulation simulation(Scenario::draw(seed), rules);
    simulation.run();
    if (!simulation.violated().empty()) return simulation.violated();
  }
  return {};
}

}  // namespace tutti::consensus
