// Calls that are long and never wait: what is rare is looked at meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

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

/// A plan that copies `bytes` bytes in one move, as among threads or in registered memory.
plan::Plan plan_of_one_copy(uint64_t bytes) {
  plan::Plan plan;
  plan.type = types::DataType::kInt8;
  plan.element_bytes = 1;
  plan.lanes.resize(1);
  plan.slices = 1;
  plan.slices_in_flight = 1;
  plan.lengths = {bytes};
  plan::Op copy;
  copy.code = plan::OpCode::kMove;
  copy.length = bytes;
  copy.source_count = copy.target_count = 1;
  plan.operands.resize(2);
  plan.operands[0].base = plan::register_of(plan::Base::kOutput);
  plan.operands[1].base = plan::register_of(plan::Base::kInput);
  plan.ops = {copy};
  plan.lanes[0].end = 1;
  return plan;
}

// 64 KiB of high priority behind 8 MiB: the thread that drives both has its turn after so few
// bytes.
TEST_F(Alone, ACallThatGivesWayStopsAfterAFramesBytes) {
  constexpr uint64_t kBytes = 8 << 20;
  std::vector<std::byte> source(kBytes, std::byte{7}), target(kBytes);
  const plan::Plan plan = plan_of_one_copy(kBytes);
  const HostProgram program(plan);
  Call call;
  call.send = source.data();
  call.recv = target.data();
  for (const bool gives_way : {false, true}) {
    std::fill(target.begin(), target.end(), std::byte{0});
    executor_->state().give_way(gives_way);
    executor_->start(program, call);
    executor_->state().begin_exposure();
    for (int turns = 1;; ++turns) {
      const bool done = executor_->advance() == Progress::kDone;
      const auto moved = static_cast<uint64_t>(
          std::find(target.begin(), target.end(), std::byte{0}) - target.begin());
      if (gives_way) {
        ASSERT_LE(moved, static_cast<uint64_t>(turns) * HostMachine::kBytesATurn);
      }
      ASSERT_EQ(done, moved == kBytes);
      if (done) break;
    }
    EXPECT_EQ(source, target);
  }
}

}  // namespace
}  // namespace tutti::exec
