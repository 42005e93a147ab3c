#include "algorithms/patterns/compose.h"

#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/schedule/builder.h"

namespace tutti::algorithms::patterns {

using namespace schedule;

namespace {

using Renaming = std::function<Block(Block)>;

// Appends the steps of one phase, with its blocks renamed, to those of an all-reduce.
class Phase {
 public:
  Phase(Builder& builder, const Schedule& phase, Renaming rename)
      : builder_(builder), phase_(phase), rename_(std::move(rename)) {}

  void append() {
    // Where each lane's latest step went, and every step; a dropped one, where the one before went.
    std::vector<std::optional<StepIndex>> latest(phase_.lanes);
    std::vector<std::optional<StepIndex>> written;
    for (const Step& step : phase_.steps) {
      builder_.lane(step.lane);
      if (!copies_itself(step)) {
        latest[step.lane] = step.kind == StepKind::kSend ? send(step) : move(step);
        for (uint32_t earlier : phase_.afters_of(step)) {
          if (written[earlier]) builder_.after(*latest[step.lane], *written[earlier]);
        }
      }
      written.push_back(latest[step.lane]);
    }
  }

 private:
  // An all-gather copies its rank's input to the output; here that is the same block.
  bool copies_itself(const Step& step) const {
    if (step.kind == StepKind::kSend || step.operand_count != 1) return false;
    const Source source = phase_.sources_of(step)[0];
    return !source.is_message() &&
           renamed(phase_.blocks_of(step, source)) == renamed(phase_.blocks_of(step));
  }

  std::vector<Block> renamed(std::span<const Block> blocks) const {
    std::vector<Block> result;
    for (Block block : blocks) result.push_back(rename_(block));
    return result;
  }

  StepIndex send(const Step& step) {
    const auto peers = phase_.peers_of(step);
    const std::vector<int> targets(peers.begin(), peers.end());
    return builder_.send(renamed(phase_.blocks_of(step)), targets);
  }

  StepIndex move(const Step& step) {
    const auto sources = phase_.sources_of(step);
    std::vector<std::vector<Block>> lists(sources.size());  // operands only view their blocks
    std::vector<Operand> operands;
    for (size_t i = 0; i < sources.size(); ++i) {
      const Source source = sources[i];
      if (!source.is_message()) lists[i] = renamed(phase_.blocks_of(step, source));
      operands.push_back(source.is_message() ? Operand::message(source.peer())
                                             : Operand::local(lists[i]));
    }
    return builder_.move(renamed(phase_.blocks_of(step)), operands, step.fold);
  }

  Builder& builder_;
  const Schedule& phase_;
  Renaming rename_;
};

// The part of `rank`'s share that lane `lane` moves.
Block part_of(const Parameters& p, int rank, uint32_t lane) {
  return output(static_cast<uint32_t>(rank) * p.lanes + lane);
}

Fraction sum(Fraction a, Fraction b) {
  const uint64_t den = std::lcm(a.den, b.den);
  return Fraction::of(a.num * (den / a.den) + b.num * (den / b.den), den);
}

// A count of the phases is one share, the n-th part of a count of the all-reduce.
Fraction of_shares(Fraction bytes, int ranks) {
  return Fraction::of(bytes.num, bytes.den * static_cast<uint64_t>(ranks));
}

}  // namespace

Shape composed_shape(const Algorithm& scatter, const Parameters& p) {
  const Shape shares = scatter.shape(p);
  return {.collective = Collective::kAllReduce,
          .ranks = p.ranks,
          .lanes = shares.lanes,
          .input = shares.input,
          .output = shares.input};
}

Schedule composed_schedule(const Algorithm& scatter, const Algorithm& gather, const Parameters& p,
                           int rank) {
  Builder builder(rank);
  const Schedule first = scatter.schedule(p, rank);
  Phase(builder, first, [&](Block block) {
    if (block.space() == Space::kInput) return block;
    if (block.space() == Space::kOutput) return part_of(p, rank, block.index());
    return output(first.scratch[block.index()].index());  // a partial sum of that input block
  }).append();

  const Schedule second = gather.schedule(p, rank);
  const auto all_reduce_block = [&](Block block) {
    return block.space() == Space::kInput ? part_of(p, rank, block.index()) : block;
  };
  std::vector<Block> scratch;
  for (Block like : second.scratch) scratch.push_back(builder.scratch(all_reduce_block(like)));
  Phase(builder, second, [&](Block block) {
    return block.space() == Space::kScratch ? scratch[block.index()] : all_reduce_block(block);
  }).append();
  return std::move(builder).finish();
}

Cost composed_cost(const Algorithm& scatter, const Algorithm& gather, const Parameters& p) {
  const Cost first = scatter.cost(p);
  const Cost second = gather.cost(p);
  return {.depth = first.depth + second.depth,
          .messages = first.messages + second.messages,
          .bytes = of_shares(sum(first.bytes, second.bytes), p.ranks),
          .published = of_shares(sum(first.published, second.published), p.ranks),
          .scratch = of_shares(second.scratch, p.ranks)};
}

}  // namespace tutti::algorithms::patterns
