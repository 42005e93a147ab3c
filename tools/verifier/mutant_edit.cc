#include "tools/verifier/mutant_edit.h"

#include <utility>

#include "src/schedule/builder.h"

namespace tutti::schedule {
namespace {

std::vector<Block> list_of(std::span<const Block> blocks) { return {blocks.begin(), blocks.end()}; }

}  // namespace

EditSchedule EditSchedule::of(const Schedule& schedule) {
  EditSchedule edit;
  edit.rank = schedule.rank;
  edit.lanes = schedule.lanes;
  edit.scratch = schedule.scratch;
  for (const Step& step : schedule.steps) {
    EditStep& to = edit.steps.emplace_back();
    to.kind = step.kind;
    to.fold = step.fold;
    to.lane = step.lane;
    to.blocks = list_of(schedule.blocks_of(step));
    for (uint32_t earlier : schedule.afters_of(step)) to.afters.push_back(earlier);
    if (step.kind == StepKind::kSend) {
      for (uint32_t peer : schedule.peers_of(step)) to.peers.push_back(static_cast<int>(peer));
      continue;
    }
    for (Source source : schedule.sources_of(step)) {
      EditSource& from = to.sources.emplace_back();
      if (source.is_message()) {
        from.peer = source.peer();
      } else {
        from.blocks = list_of(schedule.blocks_of(step, source));
      }
    }
  }
  return edit;
}

Schedule EditSchedule::finish() const {
  Builder builder(rank);
  for (Block like : scratch) builder.scratch(like);
  for (const EditStep& step : steps) {
    builder.lane(step.lane);
    StepIndex index = 0;
    if (step.kind == StepKind::kSend) {
      index = builder.send(step.blocks, step.peers);
    } else {
      std::vector<MoveSource> sources;
      for (const EditSource& source : step.sources) sources.push_back({source.peer, source.blocks});
      index = builder.move(step.blocks, sources, step.fold);
    }
    for (uint32_t earlier : step.afters) builder.after(index, earlier);
  }
  Schedule schedule = std::move(builder).finish();
  schedule.lanes = lanes;
  return schedule;
}

void EditSchedule::drop(uint32_t step) {
  steps.erase(steps.begin() + step);
  for (EditStep& other : steps) {
    std::erase(other.afters, step);
    for (uint32_t& earlier : other.afters) earlier -= earlier > step ? 1 : 0;
  }
}

void EditSchedule::repeat(uint32_t step) {
  const EditStep copy = steps[step];
  steps.insert(steps.begin() + step, copy);
  for (EditStep& other : steps) {
    for (uint32_t& earlier : other.afters) earlier += earlier >= step ? 1 : 0;
  }
}

void EditSchedule::swap(uint32_t a, uint32_t b) {
  std::swap(steps[a], steps[b]);
  for (EditStep& other : steps) {
    for (uint32_t& earlier : other.afters) {
      if (earlier == a || earlier == b) earlier = a + b - earlier;
    }
  }
}

}  // namespace tutti::schedule
