// Readers time the moves that their writers have timed: in plans, in their short form and in rings
// of pairs.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/exec/fast_path.h"
#include "src/exec/pairs.h"
#include "src/plan/bind.h"
#include "src/registry/algorithms.h"
#include "tests/support/two_ranks.h"

namespace tutti::exec {
namespace {

constexpr uint64_t kBytes = 8192;
constexpr uint32_t kWriter = 0, kReader = 1;

StoreCosts published(const testing_support::TwoRanks& two, uint32_t rank) {
  const auto& word = two.arena(rank).reads().costs[staging_class(kBytes)];
  return std::bit_cast<StoreCosts>(word.load(std::memory_order_relaxed));
}

using OneCall = std::function<Status(HostExecutor&, uint32_t rank)>;

// Both ranks call, batch by batch, until the reader has told of both kinds.
void expect_readers_tell(const OneCall& call) {
  testing_support::TwoRanks two;
  const uint64_t until_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
  StoreCosts told{};
  while ((told[false] == 0 || told[true] == 0) && monotonic_ns() < until_ns) {
    const auto batch = [&](uint32_t rank) {
      for (int i = 0; i < 200; ++i) ASSERT_TRUE(call(two.executor(rank), rank).ok());
    };
    std::thread writer(batch, kWriter);
    batch(kReader);
    writer.join();
    if (testing::Test::HasFailure()) return;
    told = published(two, kReader);
  }
  EXPECT_GT(told[false], 0);
  EXPECT_GT(told[true], 0);
  EXPECT_EQ(published(two, kWriter), StoreCosts{}) << "it has read nothing";
}

// A broadcast in slots, in the short form if `fast`.
void expect_told_of_broadcasts(bool fast) {
  const group::GroupPointer group = group::group_on_hosts({0, 0});
  std::vector<plan::Plan> plans;
  std::vector<HostProgram> programs;
  std::vector<std::optional<FastPath>> short_forms;
  for (int rank = 0; rank < 2; ++rank) {
    plan::MatchRequest wanted;
    wanted.algorithm = registry::find(schedule::Collective::kBroadcast, "publish_once");
    ASSERT_NE(wanted.algorithm, nullptr);
    wanted.parameters.ranks = 2;
    wanted.rank = rank;
    wanted.group = group;
    const Result<plan::Match> match = plan::match(wanted);
    ASSERT_TRUE(match.ok()) << match.status().message();
    plans.push_back(
        plan::bind(match.value(), {kBytes, types::DataType::kInt8, types::ReduceOp::kSum}, {}));
  }
  for (int rank = 0; rank < 2; ++rank) {
    programs.emplace_back(plans[rank]);
    short_forms.push_back(FastPath::compile(programs.back(), rank));
  }
  std::vector<std::vector<std::byte>> memory(2, std::vector<std::byte>(kBytes));
  expect_readers_tell([&](HostExecutor& executor, uint32_t rank) {
    Call call;
    call.send = call.recv = memory[rank].data();
    if (!fast) return executor.run(programs[rank], call);
    return short_forms[rank]->run(executor, call);
  });
}

TEST(StagingReads, OfPlans) { expect_told_of_broadcasts(false); }
TEST(StagingReads, OfTheirShortForm) { expect_told_of_broadcasts(true); }

TEST(StagingReads, OfPairs) {
  std::vector<std::vector<std::byte>> memory(2, std::vector<std::byte>(kBytes));
  std::vector<std::unique_ptr<PairExecutor>> pairs(2);
  expect_readers_tell([&](HostExecutor& executor, uint32_t rank) {
    if (pairs[rank] == nullptr) pairs[rank] = std::make_unique<PairExecutor>(executor);
    const Transfer transfer{1 - rank, rank == kWriter, memory[rank].data(), kBytes};
    return pairs[rank]->run({&transfer, 1});
  });
}

}  // namespace
}  // namespace tutti::exec
