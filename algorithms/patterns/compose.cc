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

// Appends the steps of one phase, with its blocks renamed.
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
  // The second phase copies its rank's input to the output; here that is the same block.
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
    std::vector<MoveSource> operands;
    for (size_t i = 0; i < sources.size(); ++i) {
      const Source source = sources[i];
      if (!source.is_message()) lists[i] = renamed(phase_.blocks_of(step, source));
      operands.push_back(source.is_message() ? MoveSource::message(source.peer())
                                             : MoveSource::local(lists[i]));
    }
    return builder_.move(renamed(phase_.blocks_of(step)), operands, step.fold);
  }

  Builder& builder_;
  const Schedule& phase_;
  Renaming rename_;
};

// A count of the phases is one share, the n-th part of a count of the composition.
Fraction of_shares(Fraction bytes, int ranks) {
  return Fraction::of(bytes.num, bytes.den * static_cast<uint64_t>(ranks));
}

}  // namespace

Shape composed_shape(const Phases& phases, const Parameters& p) {
  const Shape shares = phases.deal.shape(p);
  return {.collective = phases.collective,
          .ranks = p.ranks,
          .root = p.root,
          .lanes = shares.lanes,
          .input = shares.input,
          .output = shares.input};
}

Schedule composed_schedule(const Phases& phases, const Parameters& p, int rank) {
  Builder builder(rank);
  const bool keeps_result = traits_of(phases.collective).output.held_by(rank, p.root);
  const auto place_of = [&](uint32_t block) {
    return keeps_result ? output(block) : builder.scratch(output(block));
  };
  std::vector<Block> own;  // the rank's share, by lane
  for (uint32_t lane = 0; lane < p.lanes; ++lane) {
    own.push_back(place_of(static_cast<uint32_t>(rank) * p.lanes + lane));
  }

  const Schedule deal = phases.deal.schedule(p, rank);
  std::vector<Block> kept;  // on their way to the owner of that block
  for (Block like : deal.scratch) kept.push_back(place_of(like.index()));
  Phase(builder, deal, [&](Block block) {
    if (block.space() == Space::kInput) return block;
    return block.space() == Space::kOutput ? own[block.index()] : kept[block.index()];
  }).append();

  const Schedule collect = phases.collect.schedule(p, rank);
  const auto size_of = [&](Block like) {
    return like.space() == Space::kInput ? output(static_cast<uint32_t>(rank) * p.lanes) : like;
  };
  std::vector<Block> passed;
  for (Block like : collect.scratch) passed.push_back(builder.scratch(size_of(like)));
  Phase(builder, collect, [&](Block block) {
    if (block.space() == Space::kOutput) return block;
    return block.space() == Space::kInput ? own[block.index()] : passed[block.index()];
  }).append();
  return std::move(builder).finish();
}

Cost composed_cost(const Phases& phases, const Parameters& p) {
  const Cost first = phases.deal.cost(p);
  const Cost second = phases.collect.cost(p);
  const bool all_keep = traits_of(phases.collective).output.holder == Holder::kEverybody;
  Fraction scratch = second.scratch;
  if (!all_keep && p.ranks > 1) scratch = sum(scratch, sum(first.scratch, Fraction{1, 1}));
  return {.depth = first.depth + second.depth,
          .messages = first.messages + second.messages,
          .bytes = of_shares(sum(first.bytes, second.bytes), p.ranks),
          .published = of_shares(sum(first.published, second.published), p.ranks),
          .moved = of_shares(sum(first.moved, second.moved), p.ranks),
          .work = of_shares(sum(first.work, second.work), p.ranks),
          .scratch = of_shares(scratch, p.ranks),
          .widest = std::max(first.widest, second.widest)};
}

}  // namespace tutti::algorithms::patterns
