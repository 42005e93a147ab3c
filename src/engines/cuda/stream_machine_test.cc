#include "src/engines/cuda/stream_machine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/plan/passes.h"
#include "src/registry/algorithms.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::engines::cuda {
namespace {

using plan::Base;
using plan::Op;
using plan::OpCode;
using schedule::Collective;

constexpr int kRanks = 4;
constexpr uint64_t kScratchBytes = 64 << 10;
constexpr CUdeviceptr kRing = 1 << 20, kCounter = 1 << 30, kBuffer = uint64_t{1} << 40;

DeviceAddresses addresses_of(uint32_t rank) {
  DeviceAddresses addresses;
  addresses.rank = rank;
  for (uint64_t i = 0; i < kRanks; ++i) {
    addresses.rings.push_back((i + 1) * kRing);
    for (uint64_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
      addresses.counters[lane].push_back(kCounter + i * 4096 + lane * 64);
    }
  }
  addresses.scratch = 8 * kRing;
  addresses.scratch_bytes = kScratchBytes;
  return addresses;
}

/// So much would rank `rank` put into its stream.
exec::DeviceCounts count(const plan::Plan& plan, uint32_t rank, Status* status = nullptr,
                         const types::Scalar* factor = nullptr) {
  StreamMachine machine(nullptr, nullptr, addresses_of(rank));
  plan::Walk<StreamMachine> walk(plan.lanes[0].engine);
  plan::Cursors cursors;
  for (uint32_t lane = 0; lane < exec::kDeviceLanes; ++lane) {
    cursors.lanes[lane] = {1, plan::RingCursor(64 << 10)};
  }
  std::vector<CUdeviceptr> inputs;
  for (uint64_t i = 0; i < kRanks; ++i) inputs.push_back((3 + i) * kBuffer);
  machine.start(plan, {kBuffer, 2 * kBuffer, nullptr, factor, inputs, {}});
  walk.start(plan, cursors);
  plan::Progress progress = plan::Progress::kMoved;
  while (progress == plan::Progress::kMoved) progress = walk.advance(machine);
  if (status != nullptr) *status = machine.status();
  EXPECT_TRUE(machine.finish(kCounter + 64, 1).ok() || status != nullptr);
  return machine.counts();
}

plan::PlanSet lower(Collective collective, const char* name, uint64_t elements,
                    plan::Mode mode = plan::Mode::kStaged) {
  plan::Lowering lowering;
  lowering.mode = mode;
  lowering.algorithm = registry::find(collective, name);
  lowering.parameters = {.ranks = kRanks};
  const Result<std::vector<plan::Match>> matches = plan::match_all(lowering);
  plan::Tuning tuning;
  tuning.inline_bytes = 0;
  tuning.frame_bytes = tuning.region_bytes = 16 << 10;
  tuning.pipeline_bytes = ~uint64_t{0};
  return plan::bind_all(matches.value(),
                        {elements, types::DataType::kFloat32, types::ReduceOp::kSum}, tuning);
}

TEST(StreamMachine, PutsOneBatchOfCopiesBehindEachHandOver) {
  const plan::PlanSet set = lower(Collective::kAllGather, "direct", 1000);
  ASSERT_EQ(set.plans[0].slices, 1u);
  const exec::DeviceCounts counts = count(set.plans[0], 0);
  EXPECT_EQ(counts.copies, kRanks + 1u);  // into the ring, its own block, a pull from each peer
  EXPECT_EQ(counts.batches, 2u) << "what goes into the ring, and all that is pulled";
  EXPECT_GE(counts.operations, kRanks + 1u);  // a signal, a wait for each peer, the slice's end
  EXPECT_EQ(counts.groups, 2u) << "the signal and all waits; the slice's end and the last word";
}

TEST(StreamMachine, PutsSliceBehindSlice) {
  const exec::DeviceCounts one = count(lower(Collective::kAllGather, "direct", 1000).plans[0], 0);
  const plan::PlanSet set = lower(Collective::kAllGather, "direct", 40'000);
  ASSERT_GT(set.plans[0].slices, 4u);
  EXPECT_EQ(count(set.plans[0], 0).copies, one.copies * set.plans[0].slices);
}

TEST(StreamMachine, PutsTheSlicesOfTwoLanesInTurnsAndNoMoreOfThem) {
  const plan::Plan one = lower(Collective::kAllReduce, "two_shot", 40'000).plans[1];
  plan::Plan two = one;
  ASSERT_TRUE(plan::take_turns(two, exec::kDeviceLanes));
  const exec::DeviceCounts before = count(one, 1), now = count(two, 1);
  const uint64_t slices = two.slices * two.turns;
  ASSERT_GE(slices, one.slices);
  EXPECT_EQ(now.copies * one.slices, before.copies * slices);
  EXPECT_EQ(now.kernels, slices);
  EXPECT_EQ(before.streams, 1u);
  EXPECT_EQ(now.streams, exec::kDeviceLanes);
}

TEST(StreamMachine, OfADirectCallCopiesFromThePeersInputsAndWaitsForItsReaders) {
  const plan::PlanSet set =
      lower(Collective::kAllGather, "direct", 1'000'000, plan::Mode::kPullInputs);
  const exec::DeviceCounts counts = count(set.plans[1], 1);
  EXPECT_EQ(counts.copies, uint64_t{kRanks});  // a pull from each peer, and its own block
  // A signal, a wait for each peer, the slice's end, a wait for each reader, the last word.
  EXPECT_EQ(counts.operations, 2u + 2 * (kRanks - 1) + 1);
}

TEST(StreamMachine, CopiesFirstWhatAPlanIsBehind) {
  const plan::PlanSet set =
      lower(Collective::kBroadcast, "publish_once", 1000, plan::Mode::kPullInputs);
  StreamMachine machine(nullptr, nullptr, addresses_of(0));
  machine.start(set.plans[0], {kBuffer, kBuffer, nullptr});
  EXPECT_TRUE(machine.copy_first(kBuffer, 2 * kBuffer, 4000).ok());
  const plan::Position at;
  EXPECT_EQ(machine.signal(at, 2), plan::Answer::kGoOn);
  EXPECT_EQ(machine.counts().batches, 1u) << "the signal is behind the copy";
}

TEST(StreamMachine, LaunchesAKernelForEachFoldOfASlice) {
  const exec::DeviceCounts one = count(lower(Collective::kAllReduce, "one_shot", 1000).plans[0], 0);
  EXPECT_EQ(one.kernels, 1u);
  EXPECT_EQ(one.copies, 1u);  // into the ring
  const plan::PlanSet set = lower(Collective::kAllReduce, "two_shot", 40'000);
  ASSERT_GT(set.plans[1].slices, 4u);
  EXPECT_EQ(count(set.plans[1], 1).kernels, set.plans[1].slices);
  EXPECT_EQ(count(lower(Collective::kAllGather, "direct", 1000).plans[0], 0).kernels, 0u);
}

TEST(StreamMachine, OfAScaledSumAlsoLaunchesWhatWouldBeCopiesOfContributions) {
  const types::Scalar factor;
  const plan::Plan plan = lower(Collective::kAllReduce, "one_shot", 1000).plans[0];
  const exec::DeviceCounts scaled = count(plan, 0, nullptr, &factor);
  EXPECT_EQ(scaled.kernels, 2u);
  EXPECT_EQ(scaled.copies, 0u);
}

TEST(StreamMachine, RefusesMoreScratchMemoryThanThereIs) {
  plan::Plan plan = lower(Collective::kReduce, "two_shot", 1000).plans[1];
  ASSERT_GT(plan.scratch_bytes, 0u);
  Status status;
  count(plan, 1, &status);
  EXPECT_TRUE(status.ok()) << status.message();
  plan.scratch_bytes = kScratchBytes + 1;
  count(plan, 1, &status);
  EXPECT_NE(std::string(status.message()).find("scratch"), std::string::npos) << status.message();
}

/// Two copies of 100 bytes: from the input, and from where `second` says.
plan::Plan two_copies(plan::Operand second_source, plan::Operand second_target) {
  plan::Plan plan;
  plan.element_bytes = 1;
  plan.quantum = 64;
  plan.operands = {{plan::register_of(Base::kOutput)},
                   {plan::register_of(Base::kInput)},
                   second_target,
                   second_source};
  for (uint32_t i = 0; i < 2; ++i) {
    Op op;
    op.code = OpCode::kMove;
    op.target_count = op.source_count = 1;
    op.operands = 2 * i;
    op.length = 100;
    plan.ops.push_back(op);
  }
  plan.lanes.push_back({.engine = plan::Engine::kDevice, .begin = 0, .end = 2});
  return plan;
}

/// A pull from each of two peers, behind a wait for it.
plan::Plan two_pulls(uint64_t bytes) {
  plan::Plan plan = two_copies({plan::register_of(plan::PeerBase::kSlot, 1)},
                               {plan::register_of(Base::kOutput), plan::Shift::kNone, bytes});
  for (Op& op : plan.ops) op.length = bytes;
  std::vector<Op> ops;
  for (uint32_t i = 0; i < 2; ++i) {
    Op wait;
    wait.code = OpCode::kWait;
    wait.peer = i + 1;
    wait.value = 1;
    ops.push_back(wait);
    ops.push_back(plan.ops[i]);
  }
  plan.ops = ops;
  plan.lanes[0].end = 4;
  return plan;
}

TEST(StreamMachine, WaitsOvertakeCopiesUnlessTheseAreVeryLong) {
  const exec::DeviceCounts together = count(two_pulls(StreamMachine::kOvertakenBytes), 0);
  EXPECT_EQ(together.batches, 1u);
  EXPECT_EQ(together.groups, 2u) << "both waits; the last word";
  const exec::DeviceCounts alone = count(two_pulls(StreamMachine::kOvertakenBytes + 1), 0);
  EXPECT_EQ(alone.batches, 2u);
  EXPECT_EQ(alone.groups, 3u);
}

TEST(StreamMachine, CopiesThatTouchEachOtherAreInDifferentBatches) {
  const plan::Operand input{plan::register_of(Base::kInput)};
  const plan::Operand output{plan::register_of(Base::kOutput)};
  plan::Operand beside = output, overlapping = output;
  beside.offset = 100;
  overlapping.offset = 99;
  EXPECT_EQ(count(two_copies(input, beside), 0).batches, 1u);
  EXPECT_EQ(count(two_copies(input, overlapping), 0).batches, 2u);  // both write a byte
  EXPECT_EQ(count(two_copies(output, beside), 0).batches, 2u);      // it reads what is written
  plan::Operand in_input = input;
  in_input.offset = 50;
  EXPECT_EQ(count(two_copies(output, in_input), 0).batches, 2u);  // it writes what is read
}

TEST(StreamMachine, ACopyInPlaceIsNone) {
  const plan::Operand output{plan::register_of(Base::kOutput)};
  EXPECT_EQ(count(two_copies(output, output), 0).copies, 1u);
}

TEST(Contributions, AreTheInputAndInPlaceTheOutputUntilItIsWritten) {
  const plan::Operand input{plan::register_of(Base::kInput)};
  const plan::Operand output{plan::register_of(Base::kOutput)};
  plan::Operand behind = output;
  behind.offset = 100;
  const auto first_of = [](const plan::Plan& plan, size_t op) {
    return contributions_of(plan)[op][0] == 1;
  };
  EXPECT_TRUE(first_of(two_copies(input, output), 0));
  EXPECT_TRUE(first_of(two_copies(input, output), 1));
  EXPECT_FALSE(first_of(two_copies(output, behind), 1)) << "the first copy wrote it";
  EXPECT_TRUE(first_of(two_copies(behind, output), 1));
  plan::Operand overlapping = output;
  overlapping.offset = 99;
  EXPECT_FALSE(first_of(two_copies(overlapping, behind), 1));
}

}  // namespace
}  // namespace tutti::engines::cuda
