// Calls that are long and never wait: what is rare is looked at meanwhile.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "src/base/clock.h"
#include "src/exec/host_executor.h"
#include "src/transport/arena.h"

namespace tutti::exec {
namespace {

class Aborted final : public Health {
 public:
  Status check() override { return aborted ? Status::remote_error("it was aborted") : Status(); }

  bool aborted = false;
};

/// A rank without peers.
class Alone : public testing::Test {
 protected:
  Alone() {
    ExecutorOptions options;
    options.layout = ArenaLayout(64 << 10, 0, 1);
    Result<transport::Arena> arena = transport::Arena::create("alone", options.layout.bytes());
    EXPECT_TRUE(arena.ok());
    arena_ = std::move(arena).value();
    std::vector<Peer> peers(1);
    peers[0].arena = ArenaView(arena_.data(), options.layout);
    executor_ = std::make_unique<HostExecutor>(options, std::move(peers), health_);
  }

  /// How often something moved before the call ended, at most kMost times.
  int run(const Call& call) {
    executor_->state().name_call(call);
    int turns = 0;
    status_ = executor_->state().wait([&] {
      if (turns == kMost || !executor_->state().status().ok()) return Progress::kDone;
      ++turns;
      return Progress::kMoved;
    });
    return turns;
  }

  static constexpr int kMost = 100'000;
  Aborted health_;
  Status status_;
  std::unique_ptr<HostExecutor> executor_;

 private:
  transport::Arena arena_;
};

TEST_F(Alone, ACallThatMovesHasAllItsTurns) {
  EXPECT_EQ(run({}), kMost);
  EXPECT_TRUE(status_.ok());
}

TEST_F(Alone, ACallThatMovesPassesItsDeadline) {
  Call call;
  call.deadline_ns = monotonic_ns();
  call.what = "all_reduce";
  EXPECT_LT(run(call), kMost);
  EXPECT_EQ(status_.code(), Code::kTimeout) << status_.message();
  EXPECT_NE(status_.message().find("all_reduce on rank 0 passed its deadline while its data moved"),
            std::string::npos)
      << status_.message();
}

TEST_F(Alone, ACallThatMovesIsAborted) {
  health_.aborted = true;
  EXPECT_LT(run({}), kMost);
  EXPECT_EQ(status_.code(), Code::kRemoteError) << status_.message();
}

TEST_F(Alone, ManySlicesTakeSeveralTurns) {
  plan::Plan plan;
  plan.lanes.resize(1);
  plan.slices = 1000;
  plan.slices_in_flight = 1;
  const HostProgram program(plan);
  executor_->start(program, {});
  int turns = 1;
  while (executor_->advance() != Progress::kDone) ++turns;
  EXPECT_GT(turns, 10);
}

}  // namespace
}  // namespace tutti::exec
