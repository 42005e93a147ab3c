#include "tools/verifier/mutant.h"

#include <algorithm>
#include <utility>

#include "tools/verifier/mutant_edit.h"

namespace tutti::schedule {
namespace {

bool meets(const std::vector<Block>& a, const std::vector<Block>& b) {
  return std::ranges::find_first_of(a, b) != a.end();
}

bool reads(const EditStep& step, const std::vector<Block>& blocks) {
  if (step.kind == StepKind::kSend) return meets(step.blocks, blocks);
  return std::ranges::any_of(
      step.sources, [&](const EditSource& source) { return meets(source.blocks, blocks); });
}

bool writes(const EditStep& step, const std::vector<Block>& blocks) {
  return step.kind == StepKind::kMove && meets(step.blocks, blocks);
}

std::vector<int> partners(const EditStep& step) {
  if (step.kind == StepKind::kSend) return step.peers;
  std::vector<int> peers;
  for (const EditSource& source : step.sources) {
    if (source.peer >= 0) peers.push_back(source.peer);
  }
  return peers;
}

// Whether swapping two steps of a lane, `a` before `b`, can be seen: by the data, by a channel, or
// because a SEND would come after a wait. That it comes before one is seen only where the message
// says no more than that its sender has waited.
bool order_matters_between(const EditStep& a, const EditStep& b) {
  const bool data = (a.kind == StepKind::kMove && (reads(b, a.blocks) || writes(b, a.blocks))) ||
                    (b.kind == StepKind::kMove && (reads(a, b.blocks) || writes(a, b.blocks)));
  if (data) return true;
  const auto x = partners(a);
  const auto y = partners(b);
  if (a.kind != b.kind) {
    const bool earlier_shows = a.blocks.empty() && b.blocks.empty();
    return (a.kind == StepKind::kSend || earlier_shows) && !x.empty() && !y.empty();
  }
  return std::ranges::find_first_of(x, y) != x.end();
}

// Doing it again changes nothing and nobody sees it.
bool idempotent(const EditStep& step) {
  return step.kind == StepKind::kMove && partners(step).empty() && !reads(step, step.blocks);
}

class Generator {
 public:
  Generator(const ScheduleSet& set, const Schedule& schedule, Placement placement,
            bool order_matters, const std::function<void(const Mutant&)>& visit)
      : set_(set),
        shape_(set.shape),
        schedule_(schedule),
        original_(EditSchedule::of(schedule)),
        placement_(placement),
        order_matters_(order_matters),
        visit_(visit) {}

  void run() {
    for (uint32_t i = 0; i < original_.steps.size(); ++i) {
      step_ = i;
      change_place();
      change_peers();
      change_blocks();
      change_kind();
      if (order_matters_) change_order();
      for (size_t k = 0; k < original_.steps[i].afters.size(); ++k) {
        emit("an `after` dropped", [&](EditSchedule& s) {
          auto& afters = s.steps[step_].afters;
          afters.erase(afters.begin() + static_cast<std::ptrdiff_t>(k));
        });
      }
    }
    if (original_.scratch.empty()) return;
    EditSchedule edit = original_;
    edit.scratch.pop_back();
    visit_({"rank " + std::to_string(original_.rank) + ": the last scratch block dropped",
            edit.finish()});
  }

 private:
  template <class Change>
  void emit(const std::string& what, Change change) {
    EditSchedule edit = original_;
    change(edit);
    visit_({"rank " + std::to_string(original_.rank) + ", step " + std::to_string(step_) + " (" +
                print_step(schedule_, step_) + "): " + what,
            edit.finish()});
  }

  const EditStep& step() const { return original_.steps[step_]; }

  bool same(Block a, Block b) const {
    return same_elements(set_, placement_, original_.rank, a, b);
  }

  // The copy of a block onto itself, which orders no other steps either.
  bool does_nothing() const {
    if (step().sources.size() != 1 || step().sources[0].peer >= 0) return false;
    const bool orders = std::ranges::any_of(original_.steps, [&](const EditStep& other) {
      return std::ranges::count(other.afters, step_) != 0;
    });
    return !orders && step().afters.empty() &&
           std::ranges::equal(step().blocks, step().sources[0].blocks,
                              [&](Block a, Block b) { return same(a, b); });
  }

  void change_place() {
    if (!does_nothing()) emit("dropped", [&](EditSchedule& s) { s.drop(step_); });
    if (!idempotent(step())) {
      emit("doubled", [&](EditSchedule& s) { s.repeat(step_); });
    }
    uint32_t next = step_ + 1;
    while (next < original_.steps.size() && original_.steps[next].lane != step().lane) ++next;
    if (next < original_.steps.size() && order_matters_between(step(), original_.steps[next])) {
      emit("swapped with step " + std::to_string(next),
           [&](EditSchedule& s) { s.swap(step_, next); });
    }
    if (original_.lanes > 1) {
      emit("on the next lane", [&](EditSchedule& s) {
        uint16_t& lane = s.steps[step_].lane;
        lane = static_cast<uint16_t>((lane + 1) % s.lanes);
      });
    }
  }

  int next_peer(int peer) const {
    const int next = (peer + 1) % shape_.ranks;
    return next == original_.rank ? (next + 1) % shape_.ranks : next;
  }

  void change_peers() {
    for (size_t k = 0; k < step().peers.size(); ++k) {
      const int next = next_peer(step().peers[k]);
      if (std::ranges::count(step().peers, next) != 0) continue;
      emit("to rank " + std::to_string(next) + " instead",
           [&](EditSchedule& s) { s.steps[step_].peers[k] = next; });
    }
    for (size_t k = 0; k < step().sources.size(); ++k) {
      const int peer = step().sources[k].peer;
      if (peer < 0 || next_peer(peer) == peer) continue;
      emit("source " + std::to_string(k) + " from rank " + std::to_string(next_peer(peer)),
           [&](EditSchedule& s) { s.steps[step_].sources[k].peer = next_peer(peer); });
    }
  }

  uint32_t blocks_in(Space space) const {
    if (space == Space::kScratch) return static_cast<uint32_t>(original_.scratch.size());
    return space == Space::kInput ? shape_.input.blocks : shape_.output.blocks;
  }

  // The next block of its space; or, of a space of one block, another space.
  Block another(Block block) const {
    const uint32_t blocks = blocks_in(block.space());
    if (blocks > 1) return Block::of(block.space(), (block.index() + 1) % blocks);
    const Space space = block.space() == Space::kInput ? Space::kOutput : Space::kInput;
    return Block::of(space, 0);
  }

  void change_blocks() {
    for (size_t k = 0; k < step().blocks.size(); ++k) {
      change_block("", step().blocks[k], [k](EditStep& to, Block other) { to.blocks[k] = other; });
    }
    for (size_t i = 0; i < step().sources.size(); ++i) {
      const auto& blocks = step().sources[i].blocks;
      for (size_t k = 0; k < blocks.size(); ++k) {
        change_block("source " + std::to_string(i) + ": ", blocks[k],
                     [i, k](EditStep& to, Block other) { to.sources[i].blocks[k] = other; });
      }
    }
  }

  template <class Change>
  void change_block(const std::string& where, Block block, Change change) {
    const Block other = another(block);
    if (same(block, other)) return;
    emit(where + print(other) + " instead of " + print(block),
         [&](EditSchedule& s) { change(s.steps[step_], other); });
  }

  void change_kind() {
    if (shape_.ranks == 1) return;
    emit("turned round", [&](EditSchedule& s) {
      EditStep& to = s.steps[step_];
      if (to.kind == StepKind::kSend) {
        to.kind = StepKind::kMove;
        to.sources = {{to.peers.empty() ? -1 : to.peers[0], {}}};
      } else {
        to.kind = StepKind::kSend;
        const auto peers = partners(step());
        to.peers = {peers.empty() ? next_peer(original_.rank) : peers[0]};
      }
    });
  }

  void change_order() {
    const size_t sources = step().sources.size();
    if (sources < 3) return;
    const bool tree = step().fold == Fold::kTree;
    for (size_t k = 0; k + 1 < sources; ++k) {
      if (tree ? k % 2 == 0 : k == 0) continue;  // the two sides of a pair
      emit("sources " + std::to_string(k) + " and " + std::to_string(k + 1) + " swapped",
           [&](EditSchedule& s) {
             std::swap(s.steps[step_].sources[k], s.steps[step_].sources[k + 1]);
           });
    }
    emit("folded in the other order",
         [&](EditSchedule& s) { s.steps[step_].fold = tree ? Fold::kList : Fold::kTree; });
  }

  const ScheduleSet& set_;
  const Shape& shape_;
  const Schedule& schedule_;
  const EditSchedule original_;
  const Placement placement_;
  const bool order_matters_;
  const std::function<void(const Mutant&)>& visit_;
  uint32_t step_ = 0;
};

// The promises to selection and lowering about the original must hold for its replacement.
bool keeps(const Verdict& promised, const Verdict& found) {
  return same_cost(promised.cost, found.cost) && found.least_credit <= promised.least_credit &&
         found.canonical >= promised.canonical && found.agrees >= promised.agrees &&
         found.forwards <= promised.forwards &&
         found.needs_equal_counts <= promised.needs_equal_counts;
}

Status run_often(const ScheduleSet& set, Placement placement, uint32_t credit) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    RunOptions options;
    options.placement = placement;
    options.count = 7 + 13 * seed;
    options.slices = 1 + seed % 3;
    options.credit = credit;
    options.one_thread = seed % 4 == 3;
    options.seed = seed;
    if (Status s = run_schedule(set.shape, set.schedules, options); !s.ok()) return s;
  }
  return {};
}

}  // namespace

void for_each_mutant(const ScheduleSet& set, Placement placement, bool order_matters,
                     const std::function<void(const Mutant&)>& visit) {
  for (const Schedule& schedule : set.schedules) {
    Generator(set, schedule, placement, order_matters, visit).run();
  }
}

MutantReport try_mutants(const ScheduleSet& set, Placement placement) {
  VerifyOptions options;
  options.placement = placement;
  const Verdict promised = verify(set.shape, set.schedules, options).value();
  ScheduleSet changed = set;
  MutantReport report;
  for_each_mutant(set, placement, promised.canonical, [&](const Mutant& mutant) {
    Schedule& slot = changed.schedules[static_cast<size_t>(mutant.schedule.rank)];
    const Schedule original = std::exchange(slot, mutant.schedule);
    const Result<Verdict> found = verify(changed.shape, changed.schedules, options);
    if (!found.ok() || !keeps(promised, found.value())) {
      ++report.refused;
    } else if (Status s = run_often(changed, placement, promised.least_credit); s.ok()) {
      report.equivalent.push_back(mutant.description);
    } else {
      report.survived.push_back(mutant.description + ": " + std::string(s.message()));
    }
    slot = original;
  });
  return report;
}

}  // namespace tutti::schedule
