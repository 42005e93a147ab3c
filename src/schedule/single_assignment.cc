#include "src/schedule/single_assignment.h"

#include <utility>

namespace tutti::schedule {
namespace {

class Renaming {
 public:
  explicit Renaming(const Schedule& schedule)
      : old_(schedule), newest_(schedule.scratch.size(), 0) {
    new_.rank = schedule.rank;
    new_.lanes = schedule.lanes;
  }

  // Steps stand in an order in which one thread may run them, so the last write before a read in
  // this order is the one the read sees.
  Schedule run() && {
    for (const Step& step : old_.steps) {
      Step renamed = step;
      renamed.operands = step.kind == StepKind::kSend ? append(old_.peers_of(step)) : sources(step);
      if (step.kind == StepKind::kMove) rename_targets(step);
      renamed.blocks = append(old_.blocks_of(step));
      renamed.afters = append(old_.afters_of(step));
      new_.steps.push_back(renamed);
    }
    return std::move(new_);
  }

 private:
  uint32_t append(std::span<const uint32_t> words) {
    const auto offset = static_cast<uint32_t>(new_.words.size());
    new_.words.insert(new_.words.end(), words.begin(), words.end());
    return offset;
  }

  uint32_t append(std::span<const Block> blocks) {
    const auto offset = static_cast<uint32_t>(new_.words.size());
    for (Block block : blocks) {
      const bool scratch = block.space() == Space::kScratch;
      new_.words.push_back(scratch ? Block::of(Space::kScratch, newest_[block.index()]).word
                                   : block.word);
    }
    return offset;
  }

  // The lists first: the words of the operands lie together.
  uint32_t sources(const Step& step) {
    std::vector<uint32_t> words;
    for (Source source : old_.sources_of(step)) {
      const bool message = source.is_message();
      words.push_back(message ? source.word : append(old_.blocks_of(step, source)));
    }
    return append(words);
  }

  void rename_targets(const Step& step) {
    for (Block block : old_.blocks_of(step)) {
      if (block.space() != Space::kScratch) continue;
      newest_[block.index()] = static_cast<uint32_t>(new_.scratch.size());
      new_.scratch.push_back(old_.scratch[block.index()]);
    }
  }

  const Schedule& old_;
  Schedule new_;
  std::vector<uint32_t> newest_;  // by scratch block of the old schedule
};

}  // namespace

Schedule single_assignment(const Schedule& schedule) { return Renaming(schedule).run(); }

}  // namespace tutti::schedule
