#include "src/plan/level_run.h"

#include <algorithm>
#include <string>

namespace tutti::plan {

using schedule::Block;
using schedule::Schedule;
using schedule::Source;
using schedule::Step;
using schedule::StepKind;

bool LevelRuns::has_near(const Schedule& schedule, const Step& step) const {
  if (step.kind == StepKind::kSend) {
    return std::ranges::any_of(schedule.peers_of(step), [&](uint32_t peer) {
      return group_.near(schedule.rank, static_cast<int>(peer));
    });
  }
  return std::ranges::any_of(schedule.sources_of(step), [&](Source source) {
    return source.is_message() && group_.near(schedule.rank, source.peer());
  });
}

bool LevelRuns::has_far(const Schedule& schedule, const Step& step) const {
  if (step.kind == StepKind::kSend) {
    return std::ranges::any_of(schedule.peers_of(step), [&](uint32_t peer) {
      return !group_.near(schedule.rank, static_cast<int>(peer));
    });
  }
  return std::ranges::any_of(schedule.sources_of(step), [&](Source source) {
    return source.is_message() && !group_.near(schedule.rank, source.peer());
  });
}

Status LevelRuns::find(const Schedule& schedule, std::vector<StepRun>& runs) const {
  bool open = false;
  for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    const bool near = has_near(schedule, step), far = has_far(schedule, step);
    if (near && far && step.kind == StepKind::kMove) {
      return Status::unsupported("a step folds messages of its host and of others");
    }
    if (near && !open) runs.push_back({i, i});
    if (near) runs.back().last = i;
    open = (open || near) && !far;
  }
  return {};
}

Status LevelRuns::find() {
  for (const Schedule& schedule : schedules_) {
    if (schedule.lanes > 1) return Status::unsupported("a schedule of several lanes");
    if (Status status = find(schedule, runs_.emplace_back()); !status.ok()) return status;
  }
  return {};
}

namespace {

uint32_t place_of(const group::GroupView& group, uint32_t peer) {
  return group.near_place(static_cast<int>(peer));
}

BlockTerms terms_of(const std::map<uint32_t, BlockTerms>& blocks, uint32_t place, Block block) {
  const auto written = blocks.find(block.word);
  return written == blocks.end() ? BlockTerms{{place, block.word}} : written->second;
}

}  // namespace

void LevelRuns::send(RunState& state, uint32_t place, const Step& step) const {
  const Schedule& mine = schedules_[place];
  Message message;
  for (const Block block : mine.blocks_of(step)) {
    message.push_back(terms_of(state.blocks[place], place, block));
  }
  for (const uint32_t peer : mine.peers_of(step)) {
    if (!group_.near(mine.rank, static_cast<int>(peer))) continue;
    state.messages[{place, place_of(group_, peer)}].push_back(message);
  }
}

// False: a message of it has not been sent yet.
bool LevelRuns::move(RunState& state, uint32_t place, const Step& step) const {
  const Schedule& mine = schedules_[place];
  std::map<uint32_t, size_t> wanted;
  for (const Source source : mine.sources_of(step)) {
    if (!source.is_message()) continue;
    const uint32_t from = place_of(group_, static_cast<uint32_t>(source.peer()));
    if (state.messages[{from, place}].size() < ++wanted[from]) return false;
  }
  std::vector<BlockTerms> values(step.block_count);
  for (const Source source : mine.sources_of(step)) {
    Message message;
    if (source.is_message()) {
      const uint32_t from = place_of(group_, static_cast<uint32_t>(source.peer()));
      auto& channel = state.messages[{from, place}];
      message = std::move(channel.front());
      channel.pop_front();
      message.resize(step.block_count);
    } else {
      for (const Block block : mine.blocks_of(step, source)) {
        message.push_back(terms_of(state.blocks[place], place, block));
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].insert(values[i].end(), message[i].begin(), message[i].end());
    }
  }
  const auto targets = mine.blocks_of(step);
  for (size_t i = 0; i < values.size(); ++i) {
    std::sort(values[i].begin(), values[i].end());
    state.blocks[place][targets[i].word] = std::move(values[i]);
  }
  return true;
}

bool LevelRuns::step(RunState& state, uint32_t place) const {
  const Step& next = schedules_[place].steps[state.next[place]];
  if (next.kind == StepKind::kMove && !move(state, place, next)) return false;
  if (next.kind == StepKind::kSend) send(state, place, next);
  ++state.next[place];
  return true;
}

bool LevelRuns::advance(RunState& state, uint32_t place, size_t run) const {
  bool moved = false;
  if (run >= runs_[place].size()) return moved;
  while (state.next[place] <= runs_[place][run].last && step(state, place)) moved = true;
  return moved;
}

Result<std::vector<std::map<uint32_t, BlockTerms>>> LevelRuns::execute(size_t run) const {
  const auto ranks = static_cast<uint32_t>(schedules_.size());
  RunState state;
  state.blocks.resize(ranks);
  for (uint32_t place = 0; place < ranks; ++place) {
    state.next.push_back(run < runs_[place].size() ? runs_[place][run].first : 0);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t place = 0; place < ranks; ++place) moved = advance(state, place, run) || moved;
  }
  const bool is_empty =
      std::ranges::all_of(state.messages, [](const auto& one) { return one.second.empty(); });
  for (uint32_t place = 0; place < ranks; ++place) {
    const bool done = run >= runs_[place].size() || state.next[place] > runs_[place][run].last;
    if (done && is_empty) continue;
    return Status::unsupported("ranks of a host talk to each other and to other hosts in turns");
  }
  for (uint32_t place = 0; place < ranks; ++place) {
    std::erase_if(state.blocks[place],
                  [&](const auto& one) { return !is_read_later(place, run, Block{one.first}); });
  }
  return std::move(state.blocks);
}

// In a step that sends to both kinds of ranks, the run's messages are those to near ones.
bool LevelRuns::is_read_later(uint32_t place, size_t run, Block block) const {
  const Schedule& mine = schedules_[place];
  const auto has = [&](std::span<const Block> blocks) {
    return std::find(blocks.begin(), blocks.end(), block) != blocks.end();
  };
  const uint32_t last = runs_[place][run].last;
  for (uint32_t i = last; i < mine.steps.size(); ++i) {
    const Step& step = mine.steps[i];
    if (i == last && !has_far(mine, step)) continue;
    if (step.kind == StepKind::kSend && has(mine.blocks_of(step))) return true;
    if (step.kind == StepKind::kSend) continue;
    for (const Source source : mine.sources_of(step)) {
      if (!source.is_message() && has(mine.blocks_of(step, source))) return true;
    }
    if (has(mine.blocks_of(step))) return false;
  }
  return block.space() == schedule::Space::kOutput;
}

}  // namespace tutti::plan
