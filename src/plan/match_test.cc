#include "src/plan/match.h"

#include <gtest/gtest.h>

#include "src/plan/bind.h"
#include "src/plan/text.h"
#include "src/plan/verify_plan_examples_test.h"
#include "src/registry/algorithms.h"

namespace tutti::plan {
namespace {

using namespace schedule;

const Algorithm* find(const char* name) { return examples::find(registry::algorithms(), name); }

// Rank 0 sends two messages to rank 1 and one to both others; rank 1 answers; rank 2 only listens.
Algorithm conversation() {
  Algorithm algorithm{};
  algorithm.collective = Collective::kAllGather;
  algorithm.name = "conversation";
  algorithm.shape = [](const Parameters&) {
    Shape shape;
    shape.collective = Collective::kAllGather;
    shape.ranks = 3;
    shape.input = Partition::equal(2);
    shape.output = Partition::equal(6);
    return shape;
  };
  algorithm.schedule = [](const Parameters&, int rank) {
    Builder builder(rank);
    const Block both[] = {input(0), input(1)};
    const int others[] = {1, 2};
    if (rank == 0) {
      builder.send(input(0), 1);
      builder.send(both, others);
      builder.receive(output(2), 1);
      builder.send(input(1), 1);
    } else {
      const Block pair[] = {output(0), output(1)};
      if (rank == 1) builder.receive(output(0), 0);
      builder.receive(pair, 0);
      if (rank == 1) builder.send(input(0), 0);
      if (rank == 1) builder.receive(output(1), 0);
    }
    return std::move(builder).finish();
  };
  algorithm.cost = [](const Parameters&) { return Cost{}; };
  return algorithm;
}

Match match_of(const Algorithm& algorithm, int rank, const group::GroupPointer& group) {
  MatchRequest request;
  request.algorithm = &algorithm;
  request.parameters = {.ranks = group->ranks()};
  request.rank = rank;
  request.group = group;
  Result<Match> match = plan::match(request);
  EXPECT_TRUE(match.ok()) << match.status().message();
  return std::move(match).value();
}

TEST(Match, NumbersSignalsSlotsAndCells) {
  const Algorithm algorithm = conversation();
  const Match sender = match_of(algorithm, 0, group_of(3, Spread::kOneDomain));
  const auto& steps = sender.steps;
  // Consecutive SENDs share a signal, which the last one gives; every message has its own place.
  EXPECT_EQ(steps[0].message.value, 1u);
  EXPECT_FALSE(steps[0].signal);
  EXPECT_EQ(steps[1].message.value, 1u);
  EXPECT_TRUE(steps[1].signal);
  EXPECT_EQ(steps[3].message.value, 2u);
  EXPECT_TRUE(steps[3].signal);
  EXPECT_EQ(steps[0].message.slot, 0u);
  EXPECT_EQ(steps[1].message.slot, 1u);
  EXPECT_EQ(steps[3].message.slot, 3u);
  EXPECT_EQ(steps[1].message.cell, 1u);
  EXPECT_EQ(steps[3].message.cell, 2u);
}

TEST(Match, GivesAllRanksTheSameFrame) {
  const Algorithm algorithm = conversation();
  for (int rank = 0; rank < 3; ++rank) {
    const Match match = match_of(algorithm, rank, group_of(3, Spread::kOneDomain));
    EXPECT_EQ(match.lanes[0].advance, 3u);  // two signals of rank 0, and the end
    EXPECT_EQ(match.lanes[0].blocks, 4u);
    EXPECT_EQ(match.lanes[0].messages, 3u);
    EXPECT_EQ(match.message_blocks, 2u);
    EXPECT_FALSE(match.far);
  }
}

TEST(Match, TellsReceiversWhatToWaitFor) {
  const Algorithm algorithm = conversation();
  const Match match = match_of(algorithm, 1, group_of(3, Spread::kOneDomain));
  ASSERT_EQ(match.arrivals.size(), 3u);
  EXPECT_EQ(match.arrivals[0].slot, 0u);
  EXPECT_EQ(match.arrivals[1].slot, 1u);
  EXPECT_EQ(match.arrivals[2].slot, 3u);
  EXPECT_EQ(match.arrivals[2].value, 2u);
}

TEST(Match, SendsByStreamToOtherDomains) {
  const Algorithm algorithm = conversation();
  const Match match = match_of(algorithm, 0, group::group_on_hosts({0, 0, 1}));
  EXPECT_TRUE(match.far);
  EXPECT_EQ(match.steps[0].far_count, 0u);
  ASSERT_EQ(match.steps[1].far_count, 1u);
  EXPECT_EQ(match.far_peers[match.steps[1].far], 2);
  EXPECT_TRUE(match.steps[1].near);
  const Match alone = match_of(algorithm, 2, group::group_on_hosts({0, 0, 1}));
  EXPECT_TRUE(alone.arrivals.empty());
  EXPECT_EQ(alone.lanes[0].advance, 1u);
}

TEST(Match, LanesAreFarWhereEveryRankHasAHostOfItsOwn) {
  const Algorithm algorithm = conversation();
  EXPECT_TRUE(match_of(algorithm, 1, group::group_on_hosts({0, 1, 2})).lanes[0].far);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(match_of(algorithm, rank, group::group_on_hosts({0, 0, 1})).lanes[0].far);
  }
}

TEST(Match, RefusesMessagesThatNobodySendsOrReceives) {
  Algorithm algorithm = conversation();
  const group::GroupPointer group = group_of(3, Spread::kOneDomain);
  MatchRequest request;
  request.algorithm = &algorithm;
  request.parameters = {.ranks = 3};
  request.group = group;
  for (int liar : {0, 1}) {
    algorithm.schedule = liar == 0 ? [](const Parameters&, int rank) {
      Builder builder(rank);
      if (rank == 1) builder.receive(output(0), 0);
      return std::move(builder).finish();
    } : [](const Parameters&, int rank) {
      Builder builder(rank);
      if (rank == 0) builder.send(input(0), 1);
      return std::move(builder).finish();
    };
    EXPECT_EQ(plan::match(request).status().code(), Code::kInternalError);
  }
}

TEST(Match, RefusesFoldsOfMoreSourcesThanExecutorsHold) {
  for (int ranks : {types::kMaxSources, types::kMaxSources + 1}) {
    const group::GroupPointer group =
        group_of(ranks, Spread::kAllApart);  // only the rank's own schedule is made
    MatchRequest request;
    request.algorithm = find("all_reduce/one_shot");
    request.parameters.ranks = ranks;
    request.group = group;
    const Code expected = ranks > types::kMaxSources ? Code::kUnsupported : Code::kOk;
    EXPECT_EQ(plan::match(request).status().code(), expected) << ranks;
  }
}

// A multicast within a host is one copy into a slot, and far messages are posts for each.
TEST(Match, LetsAnyNumberOfRanksReceiveAMessage) {
  constexpr int kRanks = kMaxTargets + 2;
  for (const Spread spread : {Spread::kOneDomain, Spread::kAllApart}) {
    for (const Mode mode : {Mode::kStaged, Mode::kDirect}) {
      const group::GroupPointer group = group_of(kRanks, spread);
      MatchRequest request;
      request.algorithm = find("broadcast/publish_once");
      request.parameters.ranks = kRanks;
      request.group = group;
      request.mode = mode;
      const Result<Match> made = plan::match(request);
      ASSERT_TRUE(made.ok()) << made.status().message();
      for (const Op& op : bind(made.value(), {1 << 16}, Tuning{}).ops) {
        EXPECT_LE(op.code == OpCode::kMove ? op.target_count : 0u, kMaxTargets);
      }
    }
  }
}

TEST(Match, RefusesMessagesOfMoreBlocksThanAPlanCounts) {
  for (const uint32_t blocks : {kMaxBlocks, kMaxBlocks + 1}) {
    const int ranks = static_cast<int>(2 * blocks);  // half of all blocks go in the last round
    const group::GroupPointer group = group_of(ranks, Spread::kAllApart);
    MatchRequest request;
    request.algorithm = find("all_to_all/bruck");
    request.parameters.ranks = ranks;
    request.group = group;
    const Code expected = blocks > kMaxBlocks ? Code::kUnsupported : Code::kOk;
    EXPECT_EQ(plan::match(request).status().code(), expected) << blocks;
  }
}

// Between ranks of a host blocks go one by one, however many a step has: here half of 133120.
TEST(Match, TakesMoreBlocksWithinAHost) {
  constexpr uint32_t kRanks = 2 * 65 * 32 * 32;  // on hosts of two, below three levels
  std::vector<int> hosts;
  std::vector<std::vector<uint32_t>> levels(4);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    hosts.push_back(static_cast<int>(rank / 2));
    for (const auto& [level, size] : {std::pair{0, 2}, {1, 130}, {2, 4160}}) {
      levels[static_cast<size_t>(level)].push_back(rank / static_cast<uint32_t>(size));
    }
    levels[3].push_back(0);
  }
  MatchRequest request;
  request.algorithm = find("all_reduce/hierarchical");
  request.parameters.ranks = kRanks;
  request.parameters.tree = schedule::NodeTree::make(levels).value();
  request.group = group::group_on_hosts(hosts);
  const Result<Match> made = plan::match(request);
  ASSERT_TRUE(made.ok()) << made.status().message();
  uint32_t most = 0;
  for (const schedule::Step& step : made.value().schedule.steps) {
    most = std::max(most, step.block_count);
  }
  EXPECT_GT(most, kMaxBlocks);
}

TEST(Match, RefusesMoreLanesThanArenasHave) {
  for (const uint16_t lanes : {kMaxLanes, kMaxLanes + 1}) {
    Lowering lowering{find("all_reduce/ring"), {.ranks = 2, .lanes = lanes}};
    const Code expected = lanes > kMaxLanes ? Code::kUnsupported : Code::kOk;
    EXPECT_EQ(match_all(lowering).status().code(), expected) << lanes;
  }
}

// ---- mechanisms ---------------------------------------------------------------------------------

std::vector<Mechanism> mechanisms(const char* name, Mode mode, Placing placing) {
  const Lowering lowering{find(name), {.ranks = 4}, Spread::kOneDomain, mode, placing};
  const Result<std::vector<Match>> matches = match_all(lowering);
  std::vector<Mechanism> found;
  for (const MatchedStep& step : matches.value()[1].steps) {
    const bool seen = std::find(found.begin(), found.end(), step.message.mechanism) != found.end();
    if (step.near && !seen) found.push_back(step.message.mechanism);
  }
  return found;
}

using List = std::vector<Mechanism>;

TEST(Mechanism, OrdinaryBuffersAreStaged) {
  for (const char* name : {"all_reduce/two_shot", "all_to_all/pairwise"}) {
    EXPECT_EQ(mechanisms(name, Mode::kStaged, Placing::kSeparate), List{Mechanism::kSlot});
  }
}

TEST(Mechanism, DirectTwoShotReadsInputsAndWritesOutputs) {
  const List direct = {Mechanism::kPull, Mechanism::kPush};
  EXPECT_EQ(mechanisms("all_reduce/two_shot", Mode::kDirect, Placing::kSeparate), direct);
  // In place too: the reduced block is pushed to where its pusher has read before.
  EXPECT_EQ(mechanisms("all_reduce/two_shot", Mode::kDirect, Placing::kInPlace), direct);
}

TEST(Mechanism, WhatIsOverwrittenTooEarlyIsStaged) {
  EXPECT_EQ(mechanisms("all_to_all/pairwise", Mode::kDirect, Placing::kSeparate),
            List{Mechanism::kPull});
  for (const char* name : {"all_to_all/pairwise", "all_reduce/one_shot"}) {
    EXPECT_EQ(mechanisms(name, Mode::kDirect, Placing::kInPlace), List{Mechanism::kSlot}) << name;
    EXPECT_EQ(mechanisms(name, Mode::kSingleCopy, Placing::kInPlace), List{Mechanism::kSlot});
  }
  EXPECT_EQ(mechanisms("all_to_all/pairwise", Mode::kSingleCopy, Placing::kSeparate),
            List{Mechanism::kRead});
}

TEST(Mechanism, SeveralLanesAreDirectAndSingleCopiesStaged) {
  for (const Mode mode : {Mode::kDirect, Mode::kSingleCopy}) {
    const Lowering lowering{
        find("all_reduce/ring"), {.ranks = 4, .lanes = 2}, Spread::kOneDomain, mode};
    const std::vector<Match> matches = match_all(lowering).value();
    const Mode expected = mode == Mode::kDirect ? Mode::kDirect : Mode::kStaged;
    for (const Match& match : matches) EXPECT_EQ(match.mode, expected);
  }
}

// Rank 0 sends a block in lane 0 and hears there that rank 1 has read it. Lane 1 overwrites the
// block: `after` it has heard, if that is said. In the schedule the write stands behind either way.
template <bool kJoins>
Schedule overwriting(const Parameters&, int rank) {
  Builder builder(rank);
  const Block mine = input(0);
  if (rank == 0) {
    builder.copy(output(1), mine);
    builder.send(output(1), 1);
    const auto heard = builder.receive(output(0), 1);
    builder.lane(1);
    const auto write = builder.copy(output(1), mine);
    if (kJoins) builder.after(write, heard);
  } else {
    const schedule::MoveSource sources[] = {schedule::MoveSource::message(0),
                                            schedule::MoveSource::local(mine)};
    builder.move(output(1), sources);
    builder.copy(output(0), mine);
    builder.send(output(0), 0);
    builder.lane(1);
    builder.copy(output(2), mine);
  }
  return std::move(builder).finish();
}

TEST(Mechanism, AForgottenAfterIsFound) {
  Algorithm algorithm{};
  algorithm.collective = Collective::kAllReduce;
  algorithm.name = "overwriting";
  algorithm.shape = [](const Parameters&) {
    return Shape{Collective::kAllReduce, 2, 0, 2, Partition::equal(3), Partition::equal(3)};
  };
  algorithm.cost = [](const Parameters&) { return Cost{}; };
  MatchRequest request;
  request.algorithm = &algorithm;
  request.parameters = {.ranks = 2};
  request.group = group_of(2, Spread::kOneDomain);
  request.mode = Mode::kDirect;
  algorithm.schedule = overwriting<true>;
  EXPECT_EQ(plan::match(request).value().steps[1].message.mechanism, Mechanism::kPull);
  algorithm.schedule = overwriting<false>;
  EXPECT_EQ(plan::match(request).value().steps[1].message.mechanism, Mechanism::kSlot);
}

// Hosts whose ranks do not follow each other, and one rank alone.
TEST(HostMatch, GivesEachRankWhatItWouldWorkOutAlone) {
  const group::GroupPointer group = group::group_on_hosts({0, 1, 0, 2, 1, 0});
  MatchRequest request;
  request.algorithm = find("all_reduce/ring");
  request.parameters = {.ranks = 6};
  request.group = group;
  BindRequest bound;
  bound.count = 1000;
  for (const Mode mode : {Mode::kStaged, Mode::kDirect}) {
    request.mode = mode;
    for (const int first : group->host_first_ranks()) {
      request.rank = first;
      const auto host = HostMatch::make(request);
      ASSERT_TRUE(host.ok()) << host.status().message();
      for (const int rank : group->near_ranks(first)) {
        MatchRequest alone = request;
        alone.rank = rank;
        EXPECT_EQ(print(bind(host.value()->of(rank).value(), bound, {}), rank),
                  print(bind(plan::match(alone).value(), bound, {}), rank))
            << rank;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::plan
