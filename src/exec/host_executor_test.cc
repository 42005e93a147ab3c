// Every registered algorithm, lowered in every mode, executed by ranks as threads over real arenas
// and compared with a serial reference.
#include "src/exec/host_executor.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "src/exec/domain_test.h"
#include "src/exec/fast_path.h"
#include "src/plan/bind.h"
#include "src/registry/algorithms.h"
#include "tests/support/sanitizer.h"
#include "tests/support/thorough.h"

namespace tutti::exec {
namespace {

using namespace domain_test;

std::string run_rank(Domain& domain, const group::GroupPointer& group, const Case& c, int rank) {
  plan::MatchRequest wanted{c.algorithm, c.parameters, rank, group, c.mode, c.in_place, c.in_place};
  Result<plan::Match> match = plan::match(wanted);
  if (!match.ok()) return std::string(match.status().message());
  if (c.op == types::ReduceOp::kAvg) {
    Status status = plan::count_terms(match.value(), *c.algorithm, c.parameters);
    if (!status.ok()) return std::string(status.message());
  }
  plan::Tuning tuning;
  tuning.frame_bytes = domain.region_bytes() / 2;
  tuning.read_bytes = 4096;
  tuning.streaming_store_bytes = tuning.long_pipeline_bytes = 8192;
  tuning.pipeline_streaming_store_bytes = 64 << 10;
  const plan::Plan plan =
      plan::bind(match.value(), {c.count, types::DataType::kInt64, c.op}, tuning);
  const HostProgram program(plan);
  const auto fast = FastPath::compile(program, rank);
  for (int round = 0; round < 3; ++round) {
    Buffers b = make_buffers(c, match.value().shape, rank);
    Call call;
    call.send = b.send;
    call.recv = b.recv;
    call.signature = 77;
    const bool short_form = fast.has_value() && (round + rank) % 3 != 1;  // both meet
    const Status status = short_form ? fast->run(domain.executor(rank), call)
                                     : domain.executor(rank).run(program, call);
    if (!status.ok()) return std::string(status.message());
    const uint64_t out = schedule::output_elements(match.value().shape, rank, c.count);
    for (uint64_t i = 0; i < out; ++i) {
      if (b.recv[i] == expected(c, rank, i)) continue;
      return "rank " + std::to_string(rank) + " round " + std::to_string(round) + " element " +
             std::to_string(i) + ": " + std::to_string(b.recv[i]) + " instead of " +
             std::to_string(expected(c, rank, i));
    }
  }
  return {};
}

void run_case(Domain& domain, const Case& c) {
  const auto group =
      group::group_on_hosts(std::vector<int>(static_cast<size_t>(domain.ranks()), 0));
  std::vector<std::string> errors(static_cast<size_t>(group->ranks()));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < group->ranks(); ++rank) {
    threads.emplace_back([&, rank] { errors[rank] = run_rank(domain, group, c, rank); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "") << schedule::name_of(c.algorithm->collective) << "/" << c.algorithm->name
                         << ":" << c.parameters.lanes << " " << plan::name_of(c.mode)
                         << (c.in_place ? " in place" : "") << " count " << c.count << " root "
                         << c.parameters.root << " ranks " << group->ranks();
  }
}

constexpr uint64_t kEnd = uint64_t{1} << 32;  // of what 32 bits can count

// Two nodes, one of a third of the ranks, on which they take turns; in a group of three and more.
schedule::NodeTreePointer tree_of(int ranks) {
  std::vector<uint32_t> nodes;
  for (int rank = 0; rank < ranks; ++rank) nodes.push_back(rank % 3 == 1 ? 1 : 0);
  return schedule::NodeTree::make({nodes, std::vector<uint32_t>(nodes.size(), 0)}).value();
}

void sweep(int ranks, uint64_t first_progress, uint32_t calls_before = 0) {
  Domain domain(ranks, 64 << 10, first_progress, calls_before);
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    for (plan::Mode mode : {plan::Mode::kStaged, plan::Mode::kDirect, plan::Mode::kSingleCopy}) {
      for (bool in_place : {false, true}) {
        if (in_place && !algorithm.in_place) continue;
        for (uint64_t count : {1, 3, 64, 1000, 5003}) {
          Case c;
          c.algorithm = &algorithm;
          c.parameters.ranks = ranks;
          c.parameters.root = static_cast<int>(count) % ranks;
          if (algorithm.follows_levels()) c.parameters.tree = tree_of(ranks);
          c.parameters.lanes = count % 2 == 0 ? algorithm.max_lanes : 1;
          c.mode = mode;
          c.in_place = in_place;
          c.count = count;
          if (count == 1000 && schedule::reduces(algorithm.collective))
            c.op = types::ReduceOp::kAvg;
          run_case(domain, c);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(HostExecutorAlone, OneRank) { sweep(1, 1); }
TEST(HostExecutorAlone, TwoRanks) { sweep(2, 1); }
TEST(HostExecutorAlone, ThreeRanks) { sweep(3, 1); }
TEST(HostExecutorAlone, FourRanksNearTheEndOf32Bits) {
  sweep(4, kEnd - 50, static_cast<uint32_t>(kEnd - 50));
}
TEST(HostExecutorAlone, FiveRanks) { sweep(5, 1); }
TEST(HostExecutorAlone, EightRanks) {
  if (testing_support::kSanitized) GTEST_SKIP() << "takes a minute under a sanitizer";
  sweep(8, 1);
}

// A rank that waits for it would take, and pass on, bytes that are not there.
TEST(HostExecutorAlone, WhatCouldNotBeReadIsNotSignalled) {
  constexpr int kRanks = 3;
  Domain domain(kRanks, 64 << 10, 1);
  domain.refuse_reads();
  const auto group = group::group_on_hosts(std::vector<int>(static_cast<size_t>(kRanks), 0));
  Case c;
  c.algorithm = registry::find(Collective::kBroadcast, "chain");
  c.parameters.ranks = kRanks;
  c.mode = plan::Mode::kSingleCopy;
  c.count = 5003;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] { EXPECT_NE(run_rank(domain, group, c, rank), ""); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(domain.progress(1), 1u);
}

// One rank's part of `calls` sums of one element, most of them by the short form.
std::string run_small_calls(Domain& domain, int rank, uint64_t calls) {
  const auto group =
      group::group_on_hosts(std::vector<int>(static_cast<size_t>(domain.ranks()), 0));
  plan::MatchRequest wanted;
  wanted.algorithm = registry::find(Collective::kAllReduce, "one_shot");
  wanted.parameters.ranks = domain.ranks();
  wanted.rank = rank;
  wanted.group = group;
  const Result<plan::Match> match = plan::match(wanted);
  if (!match.ok()) return std::string(match.status().message());
  const plan::Plan plan = plan::bind(
      match.value(), {1, types::DataType::kInt64, types::ReduceOp::kSum}, plan::Tuning());
  const HostProgram program(plan);
  const auto fast = FastPath::compile(program, rank);
  if (!fast) return "a call of one element has no short form";
  const auto n = static_cast<uint64_t>(domain.ranks());
  for (uint64_t i = 0; i < calls; ++i) {
    const uint64_t mine = i + static_cast<uint64_t>(rank);
    uint64_t sum = 0;
    Call call;
    call.send = &mine;
    call.recv = &sum;
    HostExecutor& executor = domain.executor(rank);
    const Status status = i % 1000 == 7 ? executor.run(program, call) : fast->run(executor, call);
    if (!status.ok()) return std::string(status.message());
    if (sum != n * i + n * (n - 1) / 2) return "a wrong sum in call " + std::to_string(i);
  }
  return {};
}

// Both counters pass the end of their numbers in the middle.
TEST(HostExecutorAlone, SmallCallsAcrossTheEndOf32Bits) {
  const uint64_t calls = testing_support::thorough() ? 10'000'000 : 20'000;
  Domain domain(2, 64 << 10, kEnd - calls / 2, static_cast<uint32_t>(kEnd - calls / 2));
  std::string errors[2];
  std::thread other([&] { errors[1] = run_small_calls(domain, 1, calls); });
  errors[0] = run_small_calls(domain, 0, calls);
  other.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_EQ(domain.executor(0).state().calls(), static_cast<uint32_t>(calls / 2));
}

/// A broadcast of rank 0 to rank 1 through a slot.
class ThroughSlot {
 public:
  static constexpr uint64_t kCount = 512;  // a page

  explicit ThroughSlot(int rank) {
    wanted_.algorithm = registry::find(Collective::kBroadcast, "publish_once");
    wanted_.parameters.ranks = 2;
    wanted_.rank = rank;
    wanted_.group = group::group_on_hosts({0, 0});
    match_ = plan::match(wanted_).value();
    plan_ = plan::bind(match_, {kCount, types::DataType::kInt64, types::ReduceOp::kSum}, {});
    program_ = HostProgram(plan_);
    short_form_ = FastPath::compile(program_, rank);
  }
  const plan::Plan& plan() const { return plan_; }
  bool has_short_form() const { return short_form_.has_value() && plan_.lanes[0].frame_bytes > 0; }
  Status run(HostExecutor& executor, uint32_t signature, bool interpreted = false) {
    Call call;
    call.send = memory_.data();
    call.recv = memory_.data() + kCount;
    call.signature = signature;
    return interpreted ? executor.run(program_, call) : short_form_->run(executor, call);
  }

 private:
  plan::MatchRequest wanted_;
  plan::Match match_;
  plan::Plan plan_;
  HostProgram program_;
  std::optional<FastPath> short_form_;
  std::vector<int64_t> memory_ = std::vector<int64_t>(2 * kCount);
};

// A ring holds 16 pages, of which nobody reads one.
TEST(HostExecutorAlone, ShortFormWaitsForCreditOfSlots) {
  for (const bool interpreted : {true, false}) {
    Domain domain(2, 64 << 10, 1);
    domain.end_waits();
    ThroughSlot call(0);
    ASSERT_TRUE(call.has_short_form());
    int calls = 0;
    while (calls < 100 && call.run(domain.executor(0), 77, interpreted).ok()) ++calls;
    EXPECT_EQ(calls, 16) << (interpreted ? "interpreted" : "short form");
  }
}

// The slot is filled, but by another call.
TEST(HostExecutorAlone, ShortFormComparesSignaturesOfSlots) {
  for (const bool interpreted : {true, false}) {
    Domain domain(2, 64 << 10, 1);
    ThroughSlot source(0), target(1);
    ASSERT_TRUE(target.has_short_form());
    ASSERT_TRUE(source.run(domain.executor(0), 77).ok());
    EXPECT_TRUE(target.run(domain.executor(1), 77, interpreted).ok());
    ASSERT_TRUE(source.run(domain.executor(0), 77).ok());
    const Status status = target.run(domain.executor(1), 78, interpreted);
    EXPECT_EQ(status.code(), Code::kInvalidUsage) << status.message();
  }
}

// run() does by itself what such a plan forgot: nobody would see that it is wrong.
TEST(HostExecutorAlone, APlanThatForgotSomethingHasNoShortForm) {
  const plan::Plan whole = ThroughSlot(0).plan();
  ASSERT_EQ(whole.ops.front().code, plan::OpCode::kCredit);
  const auto has_short_form = [](const plan::Plan& plan) {
    return FastPath::compile(HostProgram(plan), 0).has_value();
  };
  EXPECT_TRUE(has_short_form(whole));
  plan::Plan without_credit = whole;
  without_credit.ops.erase(without_credit.ops.begin());
  --without_credit.lanes[0].end;
  EXPECT_FALSE(has_short_form(without_credit));
  plan::Plan without_end = whole;
  without_end.ops.pop_back();
  --without_end.lanes[0].end;
  EXPECT_FALSE(has_short_form(without_end));
  plan::Plan late_credit = whole;
  std::swap(late_credit.ops[0], late_credit.ops[1]);
  EXPECT_FALSE(has_short_form(late_credit));
}

/// A call of two ranks in each other's buffers.
class AmongBuffers {
 public:
  explicit AmongBuffers(int rank = 0, uint64_t count = 1000) : count_(count) {
    wanted_.algorithm = registry::find(Collective::kAllReduce, "one_shot");
    wanted_.parameters.ranks = 2;
    wanted_.rank = rank;
    wanted_.group = group::group_on_hosts({0, 0});
    wanted_.mode = plan::Mode::kDirect;
    match_ = plan::match(wanted_).value();
    plan_ = plan::bind(match_, {count, types::DataType::kInt64, types::ReduceOp::kSum}, {});
    program_ = HostProgram(plan_);
  }
  /// The first step of the rank's part.
  Progress begin(HostExecutor& executor) {
    Call call;
    call.send = memory_.data();
    call.recv = output();
    executor.start(program_, call);
    return executor.advance();
  }
  bool is_direct() const { return !plan_.prologue.empty(); }
  int64_t* output() { return memory_.data() + count_; }

 private:
  uint64_t count_;
  plan::MatchRequest wanted_;
  plan::Match match_;
  plan::Plan plan_;
  HostProgram program_;
  std::vector<int64_t> memory_ = std::vector<int64_t>(2 * count_);
};

// Rank 1 has left a call: this one is behind it, or before it.
TEST(HostExecutorAlone, ClosedBuffersStayClosedAcrossTheEndOf32Bits) {
  for (const uint32_t left : {5u, 0x7fffffffu, 0xffffffffu}) {
    for (const bool behind : {true, false}) {
      Domain domain(2, 64 << 10, 1, behind ? left : left - 2);
      domain.arena(0).guard().closed.store(uint64_t{2} << 32 | left);
      AmongBuffers call;
      ASSERT_TRUE(call.is_direct());
      EXPECT_EQ(call.begin(domain.executor(0)), behind ? Progress::kBlocked : Progress::kMoved)
          << left;
    }
  }
}

TEST(HostExecutorAlone, NoMemoryForScratchIsLeftToTheBorderOfTheCall) {
  if (testing_support::kSanitized) GTEST_SKIP() << "a sanitizer ends the program";
  Domain domain(2, 64 << 10, 1);
  plan::Plan plan;
  plan.scratch_bytes = uint64_t{1} << 62;
  EXPECT_THROW((void)domain.executor(0).run(HostProgram(plan), {}), std::bad_alloc);
}

struct {
  std::atomic<uint64_t>* closed;
  void* page;
} leaver;

// In the middle of the first piece rank 1 leaves.
TEST(HostExecutorAlone, AMoveEndsWithThePieceInHand) {
  constexpr uint64_t kCount = 3 << 20;
  constexpr size_t kPage = 4096;
  Domain domain(2, 64 << 10, 1);
  AmongBuffers first(0, kCount), second(1, kCount);
  EXPECT_EQ(first.begin(domain.executor(0)), Progress::kMoved);
  EXPECT_NE(second.begin(domain.executor(1)), Progress::kDone);
  std::fill_n(first.output(), kCount, 1);
  const auto at = reinterpret_cast<uintptr_t>(first.output()) + 100 * kPage;
  leaver = {&domain.arena(0).guard().closed, reinterpret_cast<void*>(at / kPage * kPage)};
  struct sigaction leaves {
  }, before{};
  leaves.sa_handler = [](int) {
    leaver.closed->store(uint64_t{2} << 32 | 1);
    mprotect(leaver.page, kPage, PROT_READ | PROT_WRITE);
  };
  ASSERT_EQ(sigaction(SIGSEGV, &leaves, &before), 0);
  ASSERT_EQ(mprotect(leaver.page, kPage, PROT_READ), 0);
  EXPECT_NE(domain.executor(0).advance(), Progress::kDone);
  sigaction(SIGSEGV, &before, nullptr);
  EXPECT_EQ(domain.executor(0).advance(), Progress::kBlocked);
  EXPECT_EQ(leaver.closed->load(), uint64_t{2} << 32 | 1);
  EXPECT_EQ(first.output()[0], 0);
  EXPECT_EQ(first.output()[kCount - 1], 1) << "it went on where the other rank has left";
}

TEST(HostExecutorAlone, OfTwoCallsThatWereLeftTheFirstCountsAcrossTheEndOf32Bits) {
  for (const uint32_t left : {5u, 0x7fffffffu, 0xffffffffu}) {
    for (const uint32_t number : {left + 1, left - 1}) {
      Domain domain(2, 64 << 10, 1, number - 1);
      std::atomic<uint64_t>& closed = domain.arena(1).guard().closed;
      closed.store(uint64_t{2} << 32 | left);
      AmongBuffers call;
      call.begin(domain.executor(0));
      domain.executor(0).state().fail(Status::remote_error("it leaves"));
      EXPECT_EQ(static_cast<uint32_t>(closed.load()), number == left + 1 ? left : number);
    }
  }
}

}  // namespace
}  // namespace tutti::exec
