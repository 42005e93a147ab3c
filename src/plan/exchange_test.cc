// Both ends of every message are counted alike, whatever carries it.
#include "src/plan/exchange.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "src/registry/algorithms.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::plan {
namespace {

struct Sum {
  uint32_t messages = 0;
  uint64_t elements = 0;
  bool operator==(const Sum&) const = default;
};
using Pairs = std::map<std::tuple<uint32_t, uint32_t>, Sum>;  // by source and target

/// Adds the messages that `rank` sends, or those that it receives, by its own account.
void add(Pairs& pairs, const Match& match, uint32_t rank, bool sends, uint64_t count) {
  const schedule::Layout layout(match.shape, count);
  each_exchange(match, [&](const Exchange& exchange) {
    if (exchange.sends != sends) return;
    Sum& sum = sends ? pairs[{rank, exchange.peer}] : pairs[{exchange.peer, rank}];
    ++sum.messages;
    for (const schedule::Block block : exchange.blocks) {
      sum.elements += layout.length(match.schedule, block);
    }
  });
}

std::string differ(const std::vector<Match>& matches, uint64_t count) {
  Pairs sent, received;
  for (uint32_t rank = 0; rank < matches.size(); ++rank) {
    add(sent, matches[rank], rank, true, count);
    add(received, matches[rank], rank, false, count);
  }
  for (const auto& [pair, sum] : sent) {
    const auto [source, target] = pair;
    if (received[pair] != sum) {
      return "rank " + std::to_string(source) + " to rank " + std::to_string(target) + ": " +
             std::to_string(sum.elements) + " elements sent, " +
             std::to_string(received[pair].elements) + " received";
    }
  }
  return sent.size() == received.size() ? "" : "somebody receives what nobody sends";
}

TEST(Exchange, BothEndsOfEveryMessageAreCountedAlike) {
  constexpr uint64_t kCount = 1001;
  size_t cases = 0;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const int ranks : {2, 3, 5, 8}) {
      for (const Lowering& lowering : lowerings(algorithm, ranks)) {
        const Result<std::vector<Match>> matches = match_all(lowering);
        ASSERT_TRUE(matches.ok()) << matches.status().message();
        EXPECT_EQ(differ(matches.value(), kCount), "") << print(lowering);
        ++cases;
      }
    }
  }
  EXPECT_GT(cases, 100u);
}

TEST(Exchange, AMessageThatIsCountedOnOneEndOnlyIsSeen) {
  const schedule::Algorithm& algorithm = registry::algorithms()[0];
  Result<std::vector<Match>> matches = match_all(lowerings(algorithm, 3)[0]);
  ASSERT_TRUE(matches.ok());
  auto& steps = matches.value()[1].schedule.steps;
  const auto send = std::find_if(steps.begin(), steps.end(), [](const schedule::Step& step) {
    return step.kind == schedule::StepKind::kSend;
  });
  ASSERT_NE(send, steps.end());
  send->operand_count = 0;
  EXPECT_NE(differ(matches.value(), 1001), "");
}

// The ordinals are those that streams are asked about: as many as a slice posts.
TEST(Exchange, OrdinalsOfStreamsAreThoseOfThePlan) {
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (const Lowering& lowering : lowerings(algorithm, 5)) {
      if (lowering.spread == Spread::kOneDomain) continue;
      const Result<std::vector<Match>> matches = match_all(lowering);
      ASSERT_TRUE(matches.ok()) << matches.status().message();
      const Match& match = matches.value()[0];
      const Plan plan = bind(match, {1001, types::DataType::kInt32}, small_tuning(false));
      std::vector<std::tuple<uint16_t, OpCode, uint32_t, uint32_t>> posted, told;
      for (uint16_t lane = 0; lane < plan.lanes.size(); ++lane) {
        for (uint32_t i = plan.lanes[lane].begin; i < plan.lanes[lane].end; ++i) {
          const Op& op = plan.ops[i];
          if (op.code != OpCode::kStreamSend && op.code != OpCode::kStreamReceive) continue;
          posted.emplace_back(lane, op.code, op.value, op.peer);
        }
      }
      each_exchange(match, [&](const Exchange& exchange) {
        if (exchange.near != nullptr) return;
        told.emplace_back(exchange.lane,
                          exchange.sends ? OpCode::kStreamSend : OpCode::kStreamReceive,
                          exchange.ordinal, exchange.peer);
      });
      std::sort(posted.begin(), posted.end());
      std::sort(told.begin(), told.end());
      EXPECT_EQ(posted, told) << print(lowering);
    }
  }
}

}  // namespace
}  // namespace tutti::plan
