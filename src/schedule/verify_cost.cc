#include "src/schedule/verify_cost.h"

#include <algorithm>
#include <string>
#include <vector>

namespace tutti::schedule::verifier {
namespace {

// A message's place in the longest chain that ends with it: lanes run by themselves and channels
// have room, so a SEND waits for the earlier steps of its lane, for its `after`s, and through both
// for messages. Messages that do not count are part of the chain all the same.
template <class Counts>
uint32_t count_depth(const Program& program, const Matching& matching,
                     std::span<const StepRef> order, Counts counts) {
  const size_t lanes = program.shape().lanes;
  std::vector<uint32_t> reached(static_cast<size_t>(program.ranks()) * lanes, 0);
  std::vector<uint32_t> depth(program.total_steps(), 0);  // at a step's end
  uint32_t deepest = 0;
  for (StepRef ref : order) {
    const Step& step = program.step(ref);
    uint32_t& mine = reached[static_cast<size_t>(ref.rank) * lanes + step.lane];
    for (uint32_t earlier : program.schedule(ref.rank).afters_of(step)) {
      mine = std::max(mine, depth[program.number({ref.rank, earlier})]);
    }
    if (step.kind == StepKind::kMove) {
      for (uint32_t message : matching.of_step(program.number(ref))) {
        if (message == kNoMessage) continue;
        const StepRef send = matching.messages()[message].send;
        const uint32_t one = counts(send.rank, ref.rank) ? 1 : 0;
        mine = std::max(mine, depth[program.number(send)] + one);
      }
    }
    depth[program.number(ref)] = mine;
    deepest = std::max(deepest, mine);
  }
  return deepest;
}

using Wide = unsigned __int128;

// Per step of all ranks: the width of its message, if it is a SEND. One that exceeds 64 bits does
// not fit into its receiver's memory, whose scratch is refused below.
std::vector<uint64_t> sent_widths(const Program& program) {
  std::vector<uint64_t> widths(program.total_steps(), 0);
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const Schedule& schedule = program.schedule(rank);
    const RankMemory memory = program.memory(rank);
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      if (schedule.steps[i].kind != StepKind::kSend) continue;
      uint64_t& width = widths[program.number({rank, i})];
      for (Block block : schedule.blocks_of(schedule.steps[i])) {
        width += memory.width(block);
      }
    }
  }
  return widths;
}

// The sum of all messages to each rank.
struct Received {
  std::vector<uint32_t> messages;
  std::vector<Wide> bytes;
};

Received count_received(const Program& program, const Matching& matching,
                        std::span<const uint64_t> widths) {
  const auto ranks = static_cast<size_t>(program.ranks());
  Received received{std::vector<uint32_t>(ranks, 0), std::vector<Wide>(ranks, 0)};
  for (const MatchedMessage& message : matching.messages()) {
    const auto rank = static_cast<size_t>(message.move.rank);
    ++received.messages[rank];
    received.bytes[rank] += widths[program.number(message.send)];
  }
  return received;
}

}  // namespace

Result<Cost> count_cost(const Program& program, const Matching& matching,
                        std::span<const StepRef> order) {
  Cost cost;
  cost.depth = count_depth(program, matching, order, [](int, int) { return true; });
  const std::vector<uint64_t> widths = sent_widths(program);
  const Received received = count_received(program, matching, widths);
  Wide bytes = 0;
  Wide published = 0;
  Wide moved = 0;
  Wide work = 0;
  Wide scratch = 0;
  for (int rank = 0; rank < program.ranks(); ++rank) {
    const Schedule& schedule = program.schedule(rank);
    Wide sent = 0;
    Wide shown = 0;
    Wide kept = 0;
    uint64_t messages = 0;
    for (uint32_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (step.kind != StepKind::kSend) {
        cost.widest = std::max(cost.widest, step.operand_count);
        continue;
      }
      const uint64_t width = widths[program.number({rank, i})];
      shown += width;
      sent += Wide{width} * step.operand_count;
      messages += step.operand_count;
    }
    for (Block like : schedule.scratch) {
      kept += program.geometry().width(like);
    }
    const auto me = static_cast<size_t>(rank);
    cost.messages =
        std::max({cost.messages, static_cast<uint32_t>(messages), received.messages[me]});
    bytes = std::max({bytes, sent, received.bytes[me]});
    published = std::max(published, shown);
    moved = std::max(moved, shown + received.bytes[me]);
    work += shown + received.bytes[me];
    scratch = std::max(scratch, kept);
  }
  if ((bytes | work | scratch) >> 63 != 0) return Status::unsupported("the costs exceed 64 bits");
  const uint64_t unit = program.geometry().unit();
  cost.bytes = Fraction::of(static_cast<uint64_t>(bytes), unit);
  cost.published = Fraction::of(static_cast<uint64_t>(published), unit);
  cost.moved = Fraction::of(static_cast<uint64_t>(moved), unit);
  cost.work = Fraction::of(static_cast<uint64_t>(work), unit);
  cost.scratch = Fraction::of(static_cast<uint64_t>(scratch), unit);
  return cost;
}

Result<LevelLoads> count_loads(const Program& program, const Matching& matching,
                               std::span<const StepRef> order, const NodeTree& tree) {
  if (tree.ranks() != program.ranks()) {
    return Status::invalid_argument("the tree is one of " + std::to_string(tree.ranks()) +
                                    " ranks, the schedule of " + std::to_string(program.ranks()));
  }
  struct CutSum {
    Wide out = 0, in = 0;
  };
  std::vector<std::vector<CutSum>> sums;
  for (size_t level = 0; level < tree.levels(); ++level) sums.emplace_back(tree.nodes(level));
  const std::vector<uint64_t> widths = sent_widths(program);
  for (const MatchedMessage& message : matching.messages()) {
    const int from = message.send.rank, to = message.move.rank;
    const uint64_t width = widths[program.number(message.send)];
    for (size_t level = tree.common_level(from, to); level-- > 0;) {
      sums[level][tree.node_of(level, from)].out += width;
      sums[level][tree.node_of(level, to)].in += width;
    }
  }
  LevelLoads loads;
  const uint64_t unit = program.geometry().unit();
  for (size_t level = 0; level < tree.levels(); ++level) {
    loads.depth.push_back(count_depth(program, matching, order, [&](int from, int to) {
      return tree.common_level(from, to) == level;
    }));
    std::vector<CutLoad>& cuts = loads.cuts.emplace_back();
    for (const CutSum& sum : sums[level]) {
      if ((sum.out | sum.in) >> 63 != 0) return Status::unsupported("the loads exceed 64 bits");
      cuts.push_back({Fraction::of(static_cast<uint64_t>(sum.out), unit),
                      Fraction::of(static_cast<uint64_t>(sum.in), unit)});
    }
  }
  return loads;
}

}  // namespace tutti::schedule::verifier
