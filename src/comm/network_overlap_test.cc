// A call on devices of two hosts keeps two slices under way, by counts and whatever the time: the
// host's thread gives the second one to the network while the first one is on its way, and lets the
// second one land while the streams have not read the first.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "src/comm/network_lanes.h"
#include "src/comm/network_plans_test.h"
#include "src/exec/network_executor.h"
#include "src/exec/wired_domain_test.h"
#include "src/registry/algorithms.h"
#include "src/select/tree_of.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::comm {
namespace {

using exec::domain_test::MessageBoard;
using exec::domain_test::WiredGroup;
using schedule::Collective;

/// A bounce buffer in memory of the test, which is the stream.
class TestCrossing final : public exec::NetworkCrossing {
 public:
  explicit TestCrossing(const exec::NetworkPlan& plan)
      : memory_(plan.bytes() / exec::kLineBytes + 1) {
    plan.begin(memory());
  }
  std::byte* memory() const override { return memory_.front().bytes; }
  exec::PinnedRange pinned() const override { return {}; }
  void keep(std::shared_ptr<const void> /*kept*/) override {}
  void begin(std::shared_ptr<const std::atomic<bool>> /*left*/) override { ++begins; }
  void end() override { ++ends; }
  std::shared_ptr<exec::Fence> fence() override { return nullptr; }
  void skip() override {}
  std::byte* input() const override { return nullptr; }
  std::byte* output() const override { return nullptr; }
  Status enter() override { return {}; }
  Status leave() override { return {}; }

  int begins = 0, ends = 0;

 private:
  struct alignas(exec::kLineBytes) Line {
    std::byte bytes[exec::kLineBytes];
  };
  mutable std::vector<Line> memory_;
};

/// A rank's part of the call.
struct Part {
  Part(WiredGroup& wired, int rank, const plan::Plan& lowered)
      : plan(std::make_shared<const exec::NetworkPlan>(lowered)),
        crossing(std::make_shared<TestCrossing>(*plan)),
        state(wired.executor(rank).state()),
        host(state) {
    host.start({plan, crossing, {}}, {.what = "reduce"});
  }
  uint64_t slices(uint32_t lane) const { return plan::slices_of(plan->plan, lane); }
  exec::BounceWords::BounceLaneWords& words(uint32_t lane) {
    return plan->in(crossing->memory()).words->lanes[lane];
  }
  uint64_t sent(uint32_t lane) { return words(lane).sent.value.load(); }
  uint64_t arrived(uint32_t lane) { return words(lane).arrived.value.load(); }
  /// The stream has put that many slices of the lane there.
  void stage(uint32_t lane, uint64_t slices) {
    words(lane).staged.value.store(slices * plan->plan.lanes[lane].sends);
  }
  void drain(uint32_t lane, uint64_t slices) { words(lane).drained.value.store(slices); }
  /// As far as the host goes by itself; whether its part is over.
  bool advance() {
    if (!host.is_running()) return true;
    plan::Progress progress = plan::Progress::kMoved;
    while (progress == plan::Progress::kMoved) progress = host.advance();
    EXPECT_TRUE(state.ok()) << state.status().message();
    return progress == plan::Progress::kDone;
  }

  std::shared_ptr<const exec::NetworkPlan> plan;
  std::shared_ptr<TestCrossing> crossing;
  exec::CallState& state;
  exec::NetworkExecutor host;
};

class NetworkOverlap : public testing::Test {
 protected:
  NetworkOverlap() : wired_(plan::group_of(2, plan::Spread::kAllApart), 64 << 10) {}

  /// A reduce to rank 1, in slices of two lanes that take turns, or all in one lane.
  void begin(bool in_turns) {
    plan::Lowering lowering;
    const auto algorithms = network_algorithms(registry::algorithms(), *wired_.group());
    for (const schedule::Algorithm& one : algorithms) {
      if (one.collective == Collective::kReduce) lowering.algorithm = &one;
    }
    ASSERT_NE(lowering.algorithm, nullptr);
    lowering.parameters = {.ranks = 2, .root = 1, .tree = select::tree_of(*wired_.group())};
    lowering.spread = plan::Spread::kAllApart;
    Result<std::vector<plan::Match>> matches = plan::match_all(lowering);
    ASSERT_TRUE(matches.ok()) << matches.status().message();
    for (plan::Match& match : matches.value()) {
      ASSERT_TRUE(plan::count_terms(match, *lowering.algorithm, lowering.parameters).ok());
    }
    plan::Tuning tuning = small_network_tuning();
    if (!in_turns) tuning.turns = 1;
    const plan::BindRequest request{2500, types::DataType::kFloat32, types::ReduceOp::kSum};
    plans_ = plan::bind_all(matches.value(), request, tuning);
    ASSERT_EQ(plans_.plans[0].lanes.size(), in_turns ? 2u : 1u);
    for (plan::Plan& plan : plans_.plans) {
      for (plan::LanePlan& lane : plan.lanes) lane.engine = plan::Engine::kDevice;
    }
    for (int rank = 0; rank < 2; ++rank) {
      parts_.push_back(
          std::make_unique<Part>(wired_, rank, plans_.plans[static_cast<size_t>(rank)]));
    }
    ASSERT_GT(parts_[0]->slices(0), 1u);
    per_slice_ = plans_.plans[0].lanes[0].sends;
    ASSERT_GT(per_slice_, 0u);
  }
  uint32_t lanes() const { return static_cast<uint32_t>(plans_.plans[0].lanes.size()); }
  /// The stream of the sender stages a slice of a lane when the one before it is out, and no
  /// sooner.
  void stage_what_fits() {
    for (uint32_t lane = 0; lane < lanes(); ++lane) {
      const uint64_t next = parts_[0]->sent(lane) + 1;
      parts_[0]->stage(lane, std::min(next, parts_[0]->slices(lane)));
    }
    (void)parts_[0]->advance();
  }
  uint64_t slices_given() { return wired_.board().sends() / per_slice_; }

  WiredGroup wired_;
  plan::PlanSet plans_;
  std::vector<std::unique_ptr<Part>> parts_;
  uint64_t per_slice_ = 0;
};

TEST_F(NetworkOverlap, TheNextSliceIsGivenToTheNetworkBeforeTheLastOneIsOut) {
  begin(true);
  wired_.board().hold_sends();
  for (const uint32_t first : {1u, 0u}) {  // whichever stream comes first
    parts_[0]->stage(first, 1);
    (void)parts_[0]->advance();
    EXPECT_EQ(slices_given(), first == 1 ? 1u : 2u);
  }
  EXPECT_EQ(parts_[0]->sent(0) + parts_[0]->sent(1), 0u);
  // To the end never more than two are under way, and two wherever two are left.
  const uint64_t all = parts_[0]->slices(0) + parts_[0]->slices(1);
  for (uint64_t out = 2; out < all; out += 2) {
    wired_.board().let_out();
    (void)parts_[0]->advance();
    EXPECT_EQ(parts_[0]->sent(0) + parts_[0]->sent(1), out);
    stage_what_fits();
    EXPECT_EQ(slices_given(), std::min(out + 2, all));
  }
  wired_.board().let_out();
  EXPECT_TRUE(parts_[0]->advance());
  EXPECT_TRUE(parts_[0]->state.ok());
  EXPECT_EQ(parts_[0]->crossing->begins, 1);
  EXPECT_EQ(parts_[0]->crossing->ends, 1);
}

// So the test above can fail: it counts what one lane cannot do.
TEST_F(NetworkOverlap, InOneLaneNoSliceIsGivenBeforeTheLastOneIsOut) {
  begin(false);
  wired_.board().hold_sends();
  for (uint64_t out = 0; out < parts_[0]->slices(0); ++out) {
    stage_what_fits();
    EXPECT_EQ(parts_[0]->sent(0), out);
    EXPECT_EQ(slices_given(), out + 1);
    wired_.board().let_out();
    (void)parts_[0]->advance();
  }
}

TEST_F(NetworkOverlap, TheNextSliceLandsBeforeTheLastOneIsRead) {
  begin(true);
  for (int turns = 0; turns < 4; ++turns) {
    stage_what_fits();
    (void)parts_[1]->advance();
  }
  // Each landing zone has a slice that the streams have not read, and none has two.
  const uint64_t messages = plans_.plans[1].lanes[0].receives;
  EXPECT_EQ(parts_[1]->arrived(0), messages);
  EXPECT_EQ(parts_[1]->arrived(1), messages);
  bool over = false;
  for (uint64_t slice = 1; !over; ++slice) {
    ASSERT_LE(slice, parts_[1]->slices(0) + 1);
    for (const uint32_t lane : {1u, 0u}) {
      parts_[1]->drain(lane, std::min(slice, parts_[1]->slices(lane)));
    }
    stage_what_fits();
    over = parts_[1]->advance();
  }
  EXPECT_EQ(parts_[1]->arrived(0), messages * parts_[1]->slices(0));
  EXPECT_EQ(parts_[1]->arrived(1), messages * parts_[1]->slices(1));
  EXPECT_FALSE(wired_.board().differs());
  EXPECT_TRUE(parts_[1]->state.ok());
}

}  // namespace
}  // namespace tutti::comm
