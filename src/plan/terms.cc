// How many contributions does each value hold? The schedules of all ranks run on plain numbers: an
// input block is 1, a fold is a sum.
#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "src/plan/bind.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Schedule;
using schedule::Source;
using schedule::Space;
using schedule::Step;
using schedule::StepKind;

namespace {

class TermCounter {
 public:
  TermCounter(const schedule::Shape& shape, std::vector<Schedule> schedules, Match& match)
      : schedules_(std::move(schedules)), match_(match), next_(schedules_.size(), 0) {
    for (const Schedule& schedule : schedules_) {
      values_.push_back({std::vector<uint32_t>(shape.input.blocks, 1),
                         std::vector<uint32_t>(shape.output.blocks, 0),
                         std::vector<uint32_t>(schedule.scratch.size(), 0)});
    }
    const Schedule& mine = match_.schedule;
    match_.target_terms.clear();
    match_.target_terms_begin.assign(mine.steps.size(), 0);
    match_.source_terms_begin.assign(mine.steps.size(), 0);
    match_.source_terms.clear();
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < schedules_.size(); ++rank) {
        while (next_[rank] < schedules_[rank].steps.size() && step(rank)) moved = true;
      }
    }
    for (size_t rank = 0; rank < schedules_.size(); ++rank) {
      if (next_[rank] < schedules_[rank].steps.size()) {
        return Status::internal_error("the schedule of rank " + std::to_string(rank) +
                                      " waits for ever");
      }
    }
    return {};
  }

 private:
  using Channel = std::tuple<int, int, int>;  // source, target, lane
  using Terms = std::vector<uint32_t>;        // of the blocks of a message

  uint32_t& value(size_t rank, Block block) {
    return values_[rank][static_cast<size_t>(block.space())][block.index()];
  }

  bool step(size_t rank) {
    const Schedule& schedule = schedules_[rank];
    const uint32_t index = next_[rank];
    const Step& step = schedule.steps[index];
    const auto blocks = schedule.blocks_of(step);
    if (step.kind == StepKind::kSend) {
      Terms terms;
      for (Block block : blocks) terms.push_back(value(rank, block));
      for (uint32_t peer : schedule.peers_of(step)) {
        channels_[{static_cast<int>(rank), static_cast<int>(peer), step.lane}].push_back(terms);
      }
    } else if (!move(rank, step, index)) {
      return false;
    }
    ++next_[rank];
    return true;
  }

  // The blocks of one step may hold different numbers of contributions: with seven ranks a
  // circulant message carries sums of two beside a share that is still alone.
  bool move(size_t rank, const Step& step, uint32_t index) {
    const Schedule& schedule = schedules_[rank];
    const auto channel = [&](Source source) -> std::deque<Terms>& {
      return channels_[{source.peer(), static_cast<int>(rank), step.lane}];
    };
    for (Source source : schedule.sources_of(step)) {
      if (source.is_message() && channel(source).empty()) return false;
    }
    std::vector<Terms> sources;
    for (Source source : schedule.sources_of(step)) {
      Terms& terms = sources.emplace_back();
      if (source.is_message()) {
        terms = std::move(channel(source).front());
        channel(source).pop_front();
      } else {
        for (Block block : schedule.blocks_of(step, source)) terms.push_back(value(rank, block));
      }
    }
    const bool mine = static_cast<int>(rank) == match_.schedule.rank;
    if (mine) match_.source_terms_begin[index] = static_cast<uint32_t>(match_.source_terms.size());
    if (mine) match_.target_terms_begin[index] = static_cast<uint32_t>(match_.target_terms.size());
    const auto targets = schedule.blocks_of(step);
    for (size_t i = 0; i < targets.size(); ++i) {
      uint32_t sum = 0;
      for (const Terms& terms : sources) {
        if (mine) match_.source_terms.push_back(terms[i]);
        sum += terms[i];
      }
      value(rank, targets[i]) = sum;
      if (mine) match_.target_terms.push_back(sum);
    }
    return true;
  }

  std::vector<Schedule> schedules_;
  Match& match_;
  std::vector<uint32_t> next_;
  std::vector<std::array<std::vector<uint32_t>, 3>> values_;
  std::map<Channel, std::deque<Terms>> channels_;
};

}  // namespace

Status count_terms(Match& match, const schedule::Algorithm& algorithm,
                   const schedule::Parameters& parameters) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < parameters.ranks; ++rank) {
    schedules.push_back(algorithm.schedule(parameters, rank));
  }
  const Status status = TermCounter(match.shape, std::move(schedules), match).run();
  match.terms_are_counted = status.ok();
  return status;
}

}  // namespace tutti::plan
