#include "src/plan/rounding.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>

#include "src/base/prng.h"
#include "src/plan/schedule_run.h"

namespace tutti::plan {

using schedule::Block;
using schedule::Schedule;
using schedule::Source;
using schedule::Space;
using schedule::Step;

namespace {

/// A value by the contributions that it holds, each a random number, and whether the rank that has
/// it can have its encoded bytes: it made it, or received those.
struct NumberedValue {
  uint64_t sum = 0;
  bool is_held = true;
  NumberedValue operator+(const NumberedValue& other) const { return {sum + other.sum, true}; }
};

class Rounder {
 public:
  using Number = NumberedValue;
  using Numbers = std::vector<Number>;

  Rounder(const schedule::Shape& shape, const std::vector<Schedule>& schedules,
          const group::GroupView& group, const LevelEncodings& wire, int rank)
      : shape_(shape), schedules_(schedules), group_(group), wire_(wire), mine_(rank) {
    const size_t steps = schedules[mine_].steps.size();
    made_.targets_begin.assign(steps, 0);
    made_.sources_begin.assign(steps, 0);
    for (std::vector<uint32_t>& space : written_) space.clear();
    written_[0].assign(shape.input.blocks, kNever);
    written_[1].assign(shape.output.blocks, kNever);
    written_[2].assign(schedules[mine_].scratch.size(), kNever);
  }

  static Number input(size_t rank, uint32_t block) {
    uint64_t state = uint64_t{rank} << 32 | block;
    return {splitmix64(state), true};
  }

  void send(size_t rank, uint32_t index, const Numbers& numbers) {
    const Step& step = schedules_[rank].steps[index];
    const auto peers = schedules_[rank].peers_of(step);
    const bool is_mine = static_cast<int>(rank) == mine_;
    for (const uint32_t peer : peers) {
      const size_t level = level_of(rank, peer);
      const bool encodes = wire_.levels[level] != 0;
      for (size_t i = 0; i < numbers.size(); ++i) {
        if (encodes) {
          size_t& outermost = levels_.try_emplace(numbers[i].sum, level).first->second;
          outermost = std::max(outermost, level);
          made_.encodes_again = made_.encodes_again || !numbers[i].is_held;
        }
        if (is_mine && !(encodes && numbers[i].is_held)) {
          read(schedules_[rank].blocks_of(step)[i]);
        }
      }
    }
  }

  Number received(size_t source, size_t target, Number number) const {
    return {number.sum, wire_.levels[level_of(source, target)] != 0};
  }

  void move(size_t rank, uint32_t index, const std::vector<Numbers>& sources,
            const Numbers& targets) {
    if (static_cast<int>(rank) != mine_) return;
    const Schedule& mine = schedules_[mine_];
    const Step& step = mine.steps[index];
    for (const Source source : mine.sources_of(step)) {
      if (source.is_message()) continue;
      for (const Block block : mine.blocks_of(step, source)) read(block);
    }
    made_.targets_begin[index] = static_cast<uint32_t>(target_sums_.size());
    made_.sources_begin[index] = static_cast<uint32_t>(source_sums_.size());
    for (size_t i = 0; i < targets.size(); ++i) {
      for (const Numbers& numbers : sources) source_sums_.push_back(numbers[i].sum);
      written(mine.blocks_of(step)[i]) = static_cast<uint32_t>(target_sums_.size());
      target_sums_.push_back(targets[i].sum);
      made_.reads.push_back(false);
    }
  }

  Rounding finish() {
    if (schedule::has_output(shape_, mine_)) {
      for (uint32_t i = 0; i < shape_.output.blocks; ++i) read(schedule::output(i));
    }
    for (uint32_t i = 0; i < shape_.input.blocks; ++i) {
      made_.inputs.push_back(encoding_of(input(static_cast<size_t>(mine_), i).sum));
    }
    for (const uint64_t sum : target_sums_) made_.targets.push_back(encoding_of(sum));
    for (const uint64_t sum : source_sums_) made_.sources.push_back(encoding_of(sum));
    return std::move(made_);
  }

 private:
  static constexpr uint32_t kNever = ~0u;

  size_t level_of(size_t a, size_t b) const {
    return group_.common_level(static_cast<int>(a), static_cast<int>(b));
  }
  uint8_t encoding_of(uint64_t sum) const {
    const auto found = levels_.find(sum);
    return found == levels_.end() ? 0 : wire_.levels[found->second];
  }
  uint32_t& written(Block block) {
    return written_[static_cast<size_t>(block.space())][block.index()];
  }
  void read(Block block) {
    if (written(block) != kNever) made_.reads[written(block)] = true;
  }

  const schedule::Shape& shape_;
  const std::vector<Schedule>& schedules_;
  const group::GroupView& group_;
  const LevelEncodings& wire_;
  const int mine_;
  Rounding made_;
  std::unordered_map<uint64_t, size_t> levels_;      // of values that are rounded
  std::vector<uint64_t> target_sums_, source_sums_;  // of my moves
  std::array<std::vector<uint32_t>, 3> written_;     // by block: the target of my last move there
};

}  // namespace

Result<Rounding> round_values(const schedule::Shape& shape, const std::vector<Schedule>& schedules,
                              const group::GroupView& group, const LevelEncodings& wire, int rank) {
  Rounder rounder(shape, schedules, group, wire, rank);
  if (Status status = ScheduleRun(shape, schedules, rounder).run(); !status.ok()) return status;
  return rounder.finish();
}

}  // namespace tutti::plan
