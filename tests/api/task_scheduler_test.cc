// The order in which a Driver runs tasks: streams, groups, priorities.
#include "src/operation/task_scheduler.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/operation/access_operation.h"
#include "src/operation/collective_operation.h"
#include "src/operation/transfer_operation.h"
#include "src/registry/algorithms.h"
#include "src/registry/transports.h"

namespace tutti::operation {
namespace {

constexpr size_t kCommunicators = 3;

/// A stream of a device that has come to a call, or not.
class TestFence final : public exec::Fence {
 public:
  bool is_open() const override { return open; }
  void release() override {}
  bool is_over() const override { return over; }
  bool open = false;
  bool over = true;
};

/// Communicators of one rank: a task of theirs is finished by the step that begins it.
class DriverTest : public testing::Test {
 protected:
  DriverTest() {
    for (auto& communicator : communicators_) communicator = create();
  }

  std::unique_ptr<comm::Communicator> create() {
    comm::CommunicatorOptions options;
    options.algorithms = registry::algorithms();
    options.membership.env = &env_;
    options.membership.transports = registry::transports();
    options.membership.layout = exec::ArenaLayout(1 << 20, exec::PairExecutor::kPairBytes, 1);
    options.membership.wait_limit = kNoDeadline;
    options.membership.self.ranks = 1;
    options.membership.self.host_id = "one-host";
    options.membership.self.bind_address = "127.0.0.1";
    options.membership.exchange = [](std::string_view card,
                                     const WaitLimit&) -> Result<std::vector<std::string>> {
      return std::vector<std::string>{std::string(card)};
    };
    return std::move(comm::Communicator::create(std::move(options))).value();
  }

  struct Wanted {
    size_t communicator = 0;
    int priority = 0;
    const void* stream = nullptr;
    uint64_t group = 0;
    std::shared_ptr<exec::Fence> fence = nullptr;
    bool is_replay = false;
  };

  void add(const Wanted& wanted) {
    const comm::Request barrier{.collective = schedule::Collective::kBarrier};
    add(wanted, CollectiveOperation(of(wanted), barrier));
  }

  comm::Communicator& of(const Wanted& wanted) { return *communicators_[wanted.communicator]; }

  void add(const Wanted& wanted, const Operation& operation) {
    Task task;
    task.operation = HeldOperation(operation);
    task.priority = wanted.priority;
    task.group = wanted.group;
    task.is_replay = wanted.is_replay;
    if (wanted.fence != nullptr) task.fences.push_back(wanted.fence);
    task.stream = {std::make_shared<Completion>(), wanted.stream};
    outcomes_.push_back(task.stream.completion);
    task.announce();
    driver_.add(std::move(task));
  }

  /// After one round: which tasks, by the order they were added, are finished.
  std::string advance() {
    driver_.turn(backoff_);
    return finished();
  }

  /// After so many rounds that what is rare was looked at. No more: each gives the processor away.
  std::string advance_long() {
    constexpr int kRounds = 32;
    backoff_ = Backoff(0);
    for (int i = 0; i < kRounds; ++i) driver_.turn(backoff_);
    return finished();
  }

  std::string finished() {
    std::string text;
    for (const auto& outcome : outcomes_) {
      Status status;
      text += outcome->is_done(status) ? 'x' : '.';
    }
    return text;
  }

  Config config_;
  std::unique_ptr<Logger> log_ = std::move(Logger::create(config_)).value();
  Env env_{&config_, log_.get(), monotonic_ns};
  std::array<std::unique_ptr<comm::Communicator>, kCommunicators> communicators_;
  std::vector<std::shared_ptr<Completion>> outcomes_;
  TaskScheduler driver_;
  Backoff backoff_{1000};
  const int streams_[2] = {0, 0};
};

TEST_F(DriverTest, WhatDoesNotWaitRunsInOneRound) {
  add({.communicator = 0});
  add({.communicator = 1});
  add({.communicator = 2});
  EXPECT_EQ(advance(), "xxx");
  EXPECT_TRUE(driver_.empty());
}

// It is starved for longer than one look at what is rare, after a call whose deadline has passed.
TEST_F(DriverTest, WhatHasNotBegunPassesNoDeadline) {
  constexpr int kMoreThanARareLook = 600;
  constexpr uint64_t kPassedNs = 1;
  comm::Communicator& starved = *communicators_[0];
  const comm::CallOptions usual = starved.collectives().planner().options();
  comm::CallOptions short_of_time = usual;
  short_of_time.timeout_ns = kPassedNs;
  starved.set_options(short_of_time);
  ASSERT_TRUE(
      starved.collectives().run(comm::Request{.collective = schedule::Collective::kBarrier}).ok());
  starved.set_options(usual);
  add({.communicator = 0});
  for (int i = 0; i < kMoreThanARareLook; ++i) {
    add({.communicator = 1, .priority = 1});
    ASSERT_EQ(advance().front(), '.');
  }
  while (!driver_.empty()) driver_.turn(backoff_);
  Status outcome;
  ASSERT_TRUE(outcomes_.front()->is_done(outcome));
  EXPECT_TRUE(outcome.ok()) << outcome.message();
}

// Their streams come behind the replay's, on all ranks.
TEST_F(DriverTest, AReplayGoesBeforeWhatWaitsForItsStream) {
  const auto fence = std::make_shared<TestFence>();
  add({.communicator = 0, .fence = fence});
  add({.communicator = 0});
  EXPECT_EQ(advance(), "..");
  add({.communicator = 0, .is_replay = true});
  add({.communicator = 0, .is_replay = true});
  EXPECT_EQ(advance(), "..xx");
  EXPECT_EQ(advance(), "..xx");
  fence->open = true;
  EXPECT_EQ(advance(), "xxxx");
  EXPECT_TRUE(driver_.empty());
}

TEST_F(DriverTest, AReplayComesBehindWhatHasBegun) {
  const auto fence = std::make_shared<TestFence>();
  fence->open = true;
  fence->over = false;
  add({.communicator = 0, .fence = fence});
  EXPECT_EQ(advance(), ".");
  add({.communicator = 0, .is_replay = true});
  EXPECT_EQ(advance(), "..");
  fence->over = true;
  EXPECT_EQ(advance(), "xx");
}

TEST_F(DriverTest, AReplayIsAsUrgentAsWhatItHoldsUp) {
  const auto fence = std::make_shared<TestFence>();
  add({.communicator = 0, .priority = 7, .fence = fence});
  add({.communicator = 1, .priority = 3});
  add({.communicator = 0, .is_replay = true});
  EXPECT_EQ(advance(), "..x");
  EXPECT_EQ(advance(), ".xx");
}

TEST_F(DriverTest, HigherPrioritiesFirst) {
  add({.communicator = 0});
  add({.communicator = 1, .priority = -3});
  add({.communicator = 2, .priority = 5});
  EXPECT_EQ(advance(), "..x");
  EXPECT_EQ(advance(), "x.x");
  EXPECT_EQ(advance(), "xxx");
}

// An urgent task does not overtake on its communicator or stream: it lends its priority instead.
TEST_F(DriverTest, WhatHoldsUpAnUrgentTaskIsUrgent) {
  add({.communicator = 1, .priority = 1});
  add({.communicator = 0, .stream = streams_});
  add({.communicator = 2, .stream = streams_});
  add({.communicator = 2, .priority = 9});
  EXPECT_EQ(advance(), ".xxx");
  EXPECT_EQ(advance(), "xxxx");
}

TEST_F(DriverTest, AStreamKeepsItsOrder) {
  add({.communicator = 0, .priority = -1, .stream = streams_});
  add({.communicator = 1, .priority = 2, .stream = streams_});
  add({.communicator = 2, .priority = 1, .stream = streams_ + 1});
  EXPECT_EQ(advance(), "xx.") << "the first two lend and have priority 2";
  EXPECT_EQ(advance(), "xxx");
}

// Behind the stream's earlier tasks, beside each other; what follows waits for all of them.
TEST_F(DriverTest, AGroupOnOneStream) {
  add({.communicator = 0, .stream = streams_});
  add({.communicator = 0, .stream = streams_, .group = 7});
  add({.communicator = 1, .priority = -1, .stream = streams_, .group = 7});
  add({.communicator = 2, .priority = -2, .stream = streams_});
  EXPECT_EQ(advance(), "xx..");
  EXPECT_EQ(advance(), "xxx.");
  EXPECT_EQ(advance(), "xxxx");
  EXPECT_TRUE(driver_.empty());
}

TEST_F(DriverTest, ManyTasksOfOneStream) {
  for (size_t i = 0; i < 5000; ++i) add({.communicator = i % 3, .stream = streams_});
  driver_.run(1);
  EXPECT_EQ(advance(), std::string(5000, 'x'));
  for (const auto& communicator : communicators_) EXPECT_EQ(communicator->pending.load(), 0u);
}

constexpr size_t kMany = 100'000;
// For each task its seats are taken, become the first, and ask what is before them.
constexpr uint64_t kLooksATask = 12;

TEST_F(DriverTest, AGroupCostsTheSameForEachTask) {
  for (uint64_t group : {7, 8}) {
    for (size_t i = 0; i < kMany / 2; ++i) {
      add({.communicator = i % 3, .stream = streams_, .group = group});
    }
  }
  add({.communicator = 0, .priority = 1, .stream = streams_});
  driver_.run(1);
  EXPECT_LE(driver_.looks(), kLooksATask * kMany);
  EXPECT_LE(driver_.room(), TaskScheduler::kMostSpares);
}

/// Communicator 0 holds up a stream until it is let go.
class HeldUp : public DriverTest {
 protected:
  HeldUp() {
    waiting_.kind = comm::Access::Kind::kWaitSignal;
    waiting_.times = 1;
    waiting_.window = communicators_[0]->open_window({}, false).value();
    const Wanted wanted{.communicator = 0, .stream = streams_};
    add(wanted, AccessOperation(of(wanted), waiting_));
  }

  void let_go() {
    comm::Access signal;
    signal.kind = comm::Access::Kind::kSignal;
    EXPECT_EQ(waiting_.window->advance(signal), exec::Progress::kDone);
  }

  void fail(size_t communicator) {
    communicators_[communicator]->failures().abort(Status::remote_error("given up"));
  }

 private:
  comm::Access waiting_;
};

TEST_F(HeldUp, WhatFailedInLineDoesNotWait) {
  for (int i = 0; i < 3; ++i) add({.communicator = 1, .stream = streams_});
  add({.communicator = 1});
  EXPECT_EQ(advance_long(), ".....");
  fail(1);
  EXPECT_EQ(advance_long(), ".xxxx");
  EXPECT_EQ(communicators_[1]->pending.load(), 0u);
  for (size_t i = 1; i < outcomes_.size(); ++i) {
    EXPECT_EQ(outcomes_[i]->wait().message(), "given up");
  }
  let_go();
  EXPECT_EQ(advance_long(), "xxxxx");
  EXPECT_TRUE(driver_.empty());
}

TEST_F(HeldUp, ALongQueueCostsTheSameForEachTask) {
  for (size_t i = 0; i < kMany; ++i) add({.communicator = 1 + i % 2, .stream = streams_});
  EXPECT_LE(driver_.looks(), kLooksATask * kMany);
  const uint64_t before = driver_.looks();
  advance_long();
  EXPECT_LE(driver_.looks() - before, 1000u) << "those that wait are looked at one by one";
  let_go();
  driver_.run(1);
  EXPECT_LE(driver_.looks(), 2 * kLooksATask * kMany);
  EXPECT_LE(driver_.room(), TaskScheduler::kMostSpares) << "of finished tasks memory is kept";
}

// Data that came over the network for one communicator must not wait until another one stands
// still, nor may idle connections cost a system call each in every turn.
TEST_F(HeldUp, StreamsAreMovedBesideWhatMoves) {
  constexpr uint32_t kTurns = 10 * TaskScheduler::kMostTurnsAPoll;
  for (uint32_t i = 0; i < kTurns; ++i) {
    add({.communicator = 1});
    driver_.turn(backoff_);
  }
  EXPECT_GE(driver_.polls(), kTurns / TaskScheduler::kMostTurnsAPoll);
  EXPECT_LE(driver_.polls(), 2 * kTurns / TaskScheduler::kMostTurnsAPoll);
  const uint64_t before = driver_.polls();
  for (uint32_t i = 0; i < kTurns; ++i) driver_.turn(backoff_);
  EXPECT_EQ(driver_.polls() - before, kTurns) << "nothing else moves";
  let_go();
  driver_.run(1);
}

// Tasks that all end at once are none the less no single turn.
TEST_F(HeldUp, StreamsAreMovedBesideALongQueue) {
  constexpr uint32_t kTasks = 10'000;
  driver_.turn(backoff_);  // the task that waits has begun
  for (uint32_t i = 0; i < kTasks; ++i) add({.communicator = 1});
  driver_.turn(backoff_);
  EXPECT_EQ(communicators_[1]->pending.load(), kTasks - TaskScheduler::kMostBegun);
  while (communicators_[1]->pending.load() > 0) driver_.turn(backoff_);
  EXPECT_GE(driver_.polls(), kTasks / TaskScheduler::kMostBegun / TaskScheduler::kMostTurnsAPoll);
  let_go();
  driver_.run(1);
}

TEST_F(HeldUp, AnUrgentTaskRaisesALongQueueOnce) {
  for (size_t i = 0; i < kMany; ++i) {
    add({.communicator = 1 + i % 2, .priority = static_cast<int>(i % 2), .stream = streams_});
  }
  EXPECT_LE(driver_.looks(), kLooksATask * kMany);
  let_go();
  driver_.run(1);
}

TEST_F(HeldUp, WhatFailedInLineLetsNobodyPass) {
  add({.communicator = 1, .stream = streams_});
  add({.communicator = 2, .stream = streams_});
  fail(1);
  EXPECT_EQ(advance_long(), ".x.");
  let_go();
  EXPECT_EQ(advance_long(), "xxx");
  EXPECT_TRUE(driver_.empty());
}

TEST_F(HeldUp, WhatComesAfterAFailureWaitsForWhatWasBeforeIt) {
  add({.communicator = 1, .stream = streams_});
  fail(1);
  EXPECT_EQ(advance_long(), ".x");
  add({.communicator = 2, .stream = streams_});
  add({.communicator = 2, .stream = streams_, .group = 7});
  EXPECT_EQ(advance_long(), ".x..");
  let_go();
  EXPECT_EQ(advance_long(), "xxxx");
  EXPECT_TRUE(driver_.empty());
}

TEST_F(HeldUp, WhatComesAfterSeveralFailuresWaitsForWhatWasBeforeThem) {
  for (int i = 0; i < 3; ++i) add({.communicator = 1, .stream = streams_});
  fail(1);
  EXPECT_EQ(advance_long(), ".xxx");
  add({.communicator = 2, .stream = streams_});
  EXPECT_EQ(advance_long(), ".xxx.");
  let_go();
  EXPECT_EQ(advance_long(), "xxxxx");
  EXPECT_TRUE(driver_.empty());
}

TEST_F(HeldUp, AGroupOfWhichOneFailedInLine) {
  add({.communicator = 1, .stream = streams_, .group = 7});
  add({.communicator = 2, .stream = streams_, .group = 7});
  add({.communicator = 2, .stream = streams_ + 1});
  fail(1);
  EXPECT_EQ(advance_long(), ".x..");
  let_go();
  EXPECT_EQ(advance_long(), "xxxx");
  EXPECT_TRUE(driver_.empty());
}

}  // namespace
}  // namespace tutti::operation
