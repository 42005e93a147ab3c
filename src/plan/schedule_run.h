// Runs the schedules of all ranks on numbers: what each block of each rank holds is a number, an
// input block is what an observer says, and a fold is the sum of its sources.
//
// Threads: one. Errors: schedules that wait for ever are kInternalError.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/schedule/layout.h"
#include "src/schedule/schedule.h"

namespace tutti::plan {

/// An observer has
///     using Number                               // {} is nothing; +
///     Number input(rank, block)                  // what an input block holds
///     void send(rank, index, numbers)            // the step sends these
///     Number received(source, target, number)    // the number as it comes to the target
///     void move(rank, index, sources, targets)   // [source][block], and [block]: what is stored
template <class Observer>
class ScheduleRun {
 public:
  using Number = typename Observer::Number;
  using Numbers = std::vector<Number>;

  ScheduleRun(const schedule::Shape& shape, const std::vector<schedule::Schedule>& schedules,
              Observer& observer)
      : schedules_(schedules), observer_(observer), next_(schedules.size(), 0) {
    for (size_t rank = 0; rank < schedules_.size(); ++rank) {
      Numbers inputs;
      for (uint32_t i = 0; i < shape.input.blocks; ++i) inputs.push_back(observer.input(rank, i));
      values_.push_back({std::move(inputs), Numbers(shape.output.blocks),
                         Numbers(schedules_[rank].scratch.size())});
    }
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
  using Channel = std::tuple<size_t, size_t, uint16_t>;  // source, target, lane

  Number& value(size_t rank, schedule::Block block) {
    return values_[rank][static_cast<size_t>(block.space())][block.index()];
  }

  bool step(size_t rank) {
    const schedule::Schedule& schedule = schedules_[rank];
    const uint32_t index = next_[rank];
    const schedule::Step& step = schedule.steps[index];
    if (step.kind == schedule::StepKind::kSend) {
      Numbers sent;
      for (const schedule::Block block : schedule.blocks_of(step)) {
        sent.push_back(value(rank, block));
      }
      observer_.send(rank, index, sent);
      for (const uint32_t peer : schedule.peers_of(step)) {
        channels_[{rank, peer, step.lane}].push_back(sent);
      }
    } else if (!move(rank, step, index)) {
      return false;
    }
    ++next_[rank];
    return true;
  }

  // The blocks of one step may hold different numbers: with seven ranks a circulant message carries
  // sums of two beside a share that is still alone.
  bool move(size_t rank, const schedule::Step& step, uint32_t index) {
    const schedule::Schedule& schedule = schedules_[rank];
    const auto channel = [&](schedule::Source source) -> std::deque<Numbers>& {
      return channels_[{static_cast<size_t>(source.peer()), rank, step.lane}];
    };
    for (const schedule::Source source : schedule.sources_of(step)) {
      if (source.is_message() && channel(source).empty()) return false;
    }
    std::vector<Numbers> sources;
    for (const schedule::Source source : schedule.sources_of(step)) {
      Numbers& numbers = sources.emplace_back();
      if (source.is_message()) {
        numbers = std::move(channel(source).front());
        channel(source).pop_front();
        const auto peer = static_cast<size_t>(source.peer());
        for (Number& number : numbers) number = observer_.received(peer, rank, number);
      } else {
        for (const schedule::Block block : schedule.blocks_of(step, source)) {
          numbers.push_back(value(rank, block));
        }
      }
    }
    const auto targets = schedule.blocks_of(step);
    Numbers stored;
    for (size_t i = 0; i < targets.size(); ++i) {
      Number sum = sources[0][i];
      for (size_t k = 1; k < sources.size(); ++k) sum = sum + sources[k][i];
      value(rank, targets[i]) = sum;
      stored.push_back(sum);
    }
    observer_.move(rank, index, sources, stored);
    return true;
  }

  const std::vector<schedule::Schedule>& schedules_;
  Observer& observer_;
  std::vector<uint32_t> next_;
  std::vector<std::array<Numbers, 3>> values_;
  std::map<Channel, std::deque<Numbers>> channels_;
};

}  // namespace tutti::plan
