#include "src/plan/mechanism.h"

#include <algorithm>
#include <vector>

#include "src/plan/touch.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Space;

namespace {

class HazardPass {
 public:
  HazardPass(const Traffic& traffic, bool in_place) : traffic_(traffic) {
    for (const schedule::Schedule& schedule : traffic.schedules()) {
      touches_.emplace_back(traffic.shape(), schedule, in_place);
    }
  }

  const Touches& touches(int rank) const { return touches_[traffic_.place_of(rank)]; }
  const StepOrder& order_of(int rank) const { return touches(rank).order(); }

  bool user_memory(const Sent& sent) const {
    const auto blocks = traffic_.blocks_of(sent);
    return !blocks.empty() && std::all_of(blocks.begin(), blocks.end(), [](Block block) {
      return block.space() != Space::kScratch;
    });
  }

  /// Of such a mode: whether peers know where the message's bytes lie.
  bool is_in_reach(const Sent& sent, Mode mode) const {
    const auto blocks = traffic_.blocks_of(sent);
    return mode != Mode::kPullInputs || std::all_of(blocks.begin(), blocks.end(), [](Block block) {
             return block.space() == Space::kInput;
           });
  }

  bool pull_is_safe(const Sent& sent) const {
    if (!user_memory(sent)) return false;
    const StepOrder& order = order_of(sent.source);
    for (Block block : traffic_.blocks_of(sent)) {
      for (const uint32_t write : touches(sent.source).writes(block)) {
        if (order.before(write, sent.step)) continue;
        if (!readers_are_done(sent, write)) return false;
        if (order.total()) break;  // those behind it come later still
      }
    }
    return true;
  }

  bool untouched_before(const Sent& sent) const {
    for (Block block : traffic_.blocks_of(sent)) {
      for (const uint32_t write : touches(sent.source).writes(block)) {
        if (!order_of(sent.source).before(sent.step, write)) return false;
        if (order_of(sent.source).total()) break;
      }
    }
    return true;
  }

  // Receivers only copy, and gain if the sender does it: the block was just produced (it is in the
  // sender's cache) or goes to many.
  bool push_is_better(const Sent& sent) const {
    bool pure = true;
    uint32_t receivers = 0;
    traffic_.each_delivery(sent, [&](const Delivery& delivery) {
      ++receivers;
      pure = pure && step_of(delivery).operand_count == 1;
    });
    const auto blocks = traffic_.blocks_of(sent);
    const bool produced = !blocks.empty() && blocks.front().space() != Space::kInput;
    return pure && receivers <= kMaxTargets && (produced || receivers > 1);
  }

  bool push_is_safe(const Sent& sent) const {
    bool safe = !traffic_.blocks_of(sent).empty();
    traffic_.each_delivery(sent, [&](const Delivery& delivery) {
      safe = safe && step_of(delivery).operand_count == 1;
      for (Block block : traffic_.target_of(delivery)) {
        safe = safe && block.space() == Space::kOutput && dead_on_entry(sent, delivery, block);
      }
    });
    return safe;
  }

 private:
  // Every reader of `sent` sent something after it had read, and the sender of `sent` waits for
  // that no later than in `step`.
  bool readers_are_done(const Sent& sent, uint32_t step) const {
    bool done = true;
    traffic_.each_delivery(
        sent, [&](const Delivery& read) { done = done && hears_from(sent, read, step); });
    return done;
  }

  bool hears_from(const Sent& sent, const Delivery& read, uint32_t step) const {
    const StepOrder& order = order_of(sent.source);
    for (uint32_t id : traffic_.arrivals(sent.source)) {
      const Sent& answer = traffic_.sent(id);
      if (answer.source != read.rank) continue;
      if (!order_of(read.rank).before(read.step, answer.step)) continue;
      if (untouched_before(answer)) continue;  // it might be read from the entry on, without a wait
      bool in_time = false;
      traffic_.each_delivery(answer, [&](const Delivery& heard) {
        if (heard.rank != sent.source) return;
        in_time = in_time || heard.step == step || order.before(heard.step, step);
      });
      if (in_time) return true;
    }
    return false;
  }

  const schedule::Step& step_of(const Delivery& delivery) const {
    return traffic_.schedule_of(delivery.rank).steps[delivery.step];
  }

  bool dead_on_entry(const Sent& sent, const Delivery& delivery, Block block) const {
    const StepOrder& order = order_of(delivery.rank);
    std::vector<uint32_t> others;  // that may come first
    for (const uint32_t touch : touches(delivery.rank).touches(block)) {
      if (touch != delivery.step && !order.before(delivery.step, touch)) others.push_back(touch);
    }
    if (others.empty()) return true;
    if (others.size() > 1) return false;
    const Sent* earlier = traffic_.sent_by(delivery.rank, others[0]);
    if (earlier == nullptr || earlier->mechanism != Mechanism::kPull) return false;
    bool only_the_pusher = true;
    traffic_.each_delivery(*earlier, [&](const Delivery& read) {
      only_the_pusher = only_the_pusher && read.rank == sent.source &&
                        order_of(sent.source).before(read.step, sent.step);
    });
    return only_the_pusher;
  }

  const Traffic& traffic_;
  std::vector<Touches> touches_;  // by place in the domain
};

}  // namespace

void choose_mechanisms(Traffic& traffic, Mode mode, bool in_place) {
  if (mode == Mode::kStaged) return;  // SLOT; INLINE replaces it when the count is known
  std::vector<HazardPass> placements;
  const bool rooted = schedule::traits_of(traffic.shape().collective).rooted();
  for (bool placed : {false, true}) {
    if (rooted || placed == in_place) placements.emplace_back(traffic, placed);
  }
  const auto always = [&](auto question) {
    return std::all_of(placements.begin(), placements.end(), question);
  };
  const bool direct = mode == Mode::kDirect;
  std::vector<Sent*> pushes;
  for (Sent& sent : traffic.messages()) {
    if (direct && placements[0].push_is_better(sent)) {
      pushes.push_back(&sent);
    } else if (placements[0].is_in_reach(sent, mode) &&
               always([&](const HazardPass& pass) { return pass.pull_is_safe(sent); })) {
      sent.mechanism = mode == Mode::kSingleCopy ? Mechanism::kRead : Mechanism::kPull;
      sent.ready_at_entry = enters(mode) && always([&](const HazardPass& pass) {
                              return pass.untouched_before(sent);
                            });
    }
  }
  // After the pulls are known: a push may follow the pusher's own pull of the same block.
  for (Sent* sent : pushes) {
    if (always([&](const HazardPass& pass) { return pass.push_is_safe(*sent); })) {
      sent->mechanism = Mechanism::kPush;
    }
  }
}

}  // namespace tutti::plan
