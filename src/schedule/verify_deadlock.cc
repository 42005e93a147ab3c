#include "src/schedule/verify_deadlock.h"

#include <algorithm>
#include <string>

namespace tutti::schedule::verifier {
namespace {

constexpr uint32_t kUnlimited = 0xffffffffu;
constexpr size_t kMostQuotes = 16;

class CreditRun {
 public:
  CreditRun(const Program& program, const Matching& matching, uint32_t credit)
      : program_(program),
        matching_(matching),
        credit_(credit),
        events_(matching.messages().size(), 0),
        ranks_(static_cast<size_t>(program.ranks())) {}

  /// True if all ranks come to their end. Appends the steps to `order` as they run.
  bool finish(std::vector<StepRef>* order) {
    for (int rank = program_.ranks() - 1; rank >= 0; --rank) runnable_.push_back(rank);
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      advance(rank, order);
    }
    return done_ == ranks_.size();
  }

  /// After finish() failed: the circle.
  std::string circle() const;

 private:
  enum Event : uint8_t { kSent = 1, kConsumed = 2 };

  struct RankState {
    uint32_t step = 0;
    uint32_t operand = 0;             // of the step: those before it wait for nothing any more
    bool offered = false;             // rendezvous: the SEND at `step` is out, not yet complete
    uint32_t waits_for = kNoMessage;  // this message's
    Event event = kSent;              // event
  };

  bool happened(uint32_t message, Event event) const { return (events_[message] & event) != 0; }

  // A message has one sender, who may wait until it is consumed, and one receiver, who may wait
  // until it is sent. So there is one rank to wake.
  void happen(uint32_t message, Event event) {
    events_[message] |= event;
    const MatchedMessage& m = matching_.messages()[message];
    const int other = event == kSent ? m.move.rank : m.send.rank;
    RankState& state = ranks_[static_cast<size_t>(other)];
    if (state.waits_for != message || state.event != event) return;
    state.waits_for = kNoMessage;
    runnable_.push_back(other);
  }

  bool wait(RankState& state, uint32_t message, Event event) const {
    if (happened(message, event)) return false;
    state.waits_for = message;
    state.event = event;
    return true;
  }

  void advance(int rank, std::vector<StepRef>* order) {
    RankState& state = ranks_[static_cast<size_t>(rank)];
    const Schedule& schedule = program_.schedule(rank);
    for (; state.step < schedule.steps.size(); ++state.step) {
      const StepRef ref{rank, state.step};
      const auto messages = matching_.of_step(program_.number(ref));
      const bool sends = schedule.steps[state.step].kind == StepKind::kSend;
      if (sends ? !send(state, messages) : !move(state, messages)) return;
      state.operand = 0;
      if (order != nullptr) order->push_back(ref);
    }
    ++done_;
  }

  bool send(RankState& state, std::span<const uint32_t> messages) {
    if (!state.offered) {
      if (credit_ != kUnlimited && !all_channels_have_room(state, messages)) return false;
      for (uint32_t message : messages) happen(message, kSent);
    }
    if (credit_ != 0) return true;
    state.operand = state.offered ? state.operand : 0;
    state.offered = true;
    for (; state.operand < messages.size(); ++state.operand) {
      if (wait(state, messages[state.operand], kConsumed)) return false;
    }
    state.offered = false;
    return true;
  }

  bool all_channels_have_room(RankState& state, std::span<const uint32_t> messages) const {
    for (; credit_ != 0 && state.operand < messages.size(); ++state.operand) {
      const uint32_t message = messages[state.operand];
      if (matching_.messages()[message].number < credit_) continue;
      if (wait(state, message - credit_, kConsumed)) return false;
    }
    return true;
  }

  bool move(RankState& state, std::span<const uint32_t> messages) {
    for (; state.operand < messages.size(); ++state.operand) {
      const uint32_t message = messages[state.operand];
      if (message != kNoMessage && wait(state, message, kSent)) return false;
    }
    if (credit_ == kUnlimited) return true;
    for (uint32_t message : messages) {
      if (message != kNoMessage) happen(message, kConsumed);
    }
    return true;
  }

  const Program& program_;
  const Matching& matching_;
  uint32_t credit_;
  std::vector<uint8_t> events_;  // per message
  std::vector<RankState> ranks_;
  std::vector<int> runnable_;
  size_t done_ = 0;
};

// Every rank that is stuck waits for one other, which is stuck too: its message is sent (consumed)
// by a step that the other has not reached. So following them ends in a circle.
std::string CreditRun::circle() const {
  int rank = 0;
  while (ranks_[static_cast<size_t>(rank)].waits_for == kNoMessage) ++rank;
  std::vector<int> path;
  while (std::ranges::find(path, rank) == path.end()) {
    path.push_back(rank);
    const RankState& state = ranks_[static_cast<size_t>(rank)];
    const MatchedMessage& message = matching_.messages()[state.waits_for];
    rank = state.event == kSent ? message.send.rank : message.move.rank;
  }
  path.erase(path.begin(), std::ranges::find(path, rank));
  std::string text;
  for (size_t i = 0; i < path.size() && i < kMostQuotes; ++i) {
    const RankState& state = ranks_[static_cast<size_t>(path[i])];
    const MatchedMessage& message = matching_.messages()[state.waits_for];
    const StepRef source = state.event == kSent ? message.send : message.move;
    text += "\n  " + program_.where({path[i], state.step}) + " waits for " + program_.where(source);
  }
  if (path.size() > kMostQuotes) {
    text += "\n  ... " + std::to_string(path.size()) + " ranks in all";
  }
  return text;
}

}  // namespace

Result<std::vector<StepRef>> run_order(const Program& program, const Matching& matching) {
  std::vector<StepRef> order;
  order.reserve(program.total_steps());
  CreditRun run(program, matching, kUnlimited);
  if (run.finish(&order)) return order;
  return Status::invalid_argument("deadlock, with any credit:" + run.circle());
}

uint32_t least_credit(const Program& program, const Matching& matching) {
  const auto enough = [&](uint32_t credit) {
    return CreditRun(program, matching, credit).finish(nullptr);
  };
  if (enough(0)) return 0;
  uint32_t low = 0;  // not enough
  uint32_t high = 1;
  while (!enough(high)) {
    low = high;
    high = std::min(2 * high, matching.longest_channel());
  }
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace tutti::schedule::verifier
