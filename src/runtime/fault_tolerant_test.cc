// The all_reduce that survives, by threads: values, memory, what is refused. Ranks that die:
// tests/kill/fault_tolerant_main.cc.
#include "tutti/runtime/fault_tolerant.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "src/runtime/crew_test.h"

namespace tutti::runtime {
namespace {

uint16_t bfloat(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>(bits >> 16);
}

TEST(FaultTolerant, SumsAndAveragesOfEveryKindOfType) {
  run_ranks(4, [](tuttiComm_t comm, int rank) {
    FaultTolerantAllReduce reduce(comm);
    const float mine = static_cast<float>(rank + 1);
    std::vector<float> floats(500, mine), sums(500);
    std::vector<double> doubles(3, rank);
    std::vector<uint16_t> halves(7, bfloat(mine));
    std::vector<int64_t> integers(5, -rank - 1);
    reduce.all_reduce(floats.data(), sums.data(), 500, tuttiFloat32, tuttiSum);
    reduce.all_reduce(doubles.data(), doubles.data(), 3, tuttiFloat64, tuttiAvg);
    reduce.all_reduce(halves.data(), halves.data(), 7, tuttiBfloat16, tuttiAvg);
    reduce.all_reduce(integers.data(), integers.data(), 5, tuttiInt64, tuttiAvg);
    reduce.all_reduce(nullptr, nullptr, 0, tuttiInt8, tuttiSum);
    const StepReport report = reduce.step_commit();
    EXPECT_EQ(report.step, 0);
    EXPECT_EQ(report.divisor, 4);
    EXPECT_EQ(report.members.size(), 4u);
    EXPECT_EQ(report.rank, rank);
    EXPECT_EQ(report.runs, 1);
    EXPECT_EQ(sums, std::vector<float>(500, 10));
    EXPECT_EQ(floats, std::vector<float>(500, mine));
    EXPECT_EQ(doubles, std::vector<double>(3, 1.5));
    EXPECT_EQ(halves, std::vector<uint16_t>(7, bfloat(2.5f)));
    EXPECT_EQ(integers, std::vector<int64_t>(5, -2));  // -10 / 4, toward zero
    EXPECT_EQ(reduce.step(), 1);
    EXPECT_EQ(reduce.step_commit().step, 1);
  });
}

TEST(FaultTolerant, KeepsAsManyBytesAsAStepHasInPlace) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    FaultTolerantSpec spec;
    spec.most_kept = Bytes(4000);
    FaultTolerantAllReduce reduce(comm, spec);
    std::vector<float> values(1000, 1), result(1000);
    for (int step = 0; step < 3; ++step) {
      reduce.all_reduce(values.data(), values.data(), 1000, tuttiFloat32, tuttiAvg);
      reduce.all_reduce(values.data() + 10, result.data(), 10, tuttiFloat32, tuttiSum);
      EXPECT_EQ(reduce.kept(), Bytes(4000));
      EXPECT_INFEASIBLE(
          reduce.all_reduce(result.data(), result.data(), 1, tuttiFloat32, tuttiSum),
          "no room for 4 bytes of a call beside the 4000 that are kept, of at most 4000");
      reduce.step_commit();
    }
    EXPECT_EQ(values, std::vector<float>(1000, 1));
  });
}

TEST(FaultTolerant, RefusesWhatHasNoMeaning) {
  run_ranks(2, [](tuttiComm_t comm, int) {
    FaultTolerantAllReduce reduce(comm);
    float values[4] = {};
    EXPECT_REFUSED(reduce.all_reduce(values, values, 2, tuttiFloat32, tuttiMax), "only tuttiSum");
    EXPECT_REFUSED(reduce.all_reduce(values, values + 1, 2, tuttiFloat32, tuttiSum), "overlap");
    EXPECT_REFUSED(reduce.all_reduce(values, values, -1, tuttiFloat32, tuttiSum), "-1 elements");
    EXPECT_REFUSED(reduce.all_reduce(nullptr, values, 1, tuttiFloat32, tuttiSum), "null");
    EXPECT_REFUSED(reduce.all_reduce(values, values, 1, tuttiFloat8e4m3, tuttiAvg), "8 bits");
    EXPECT_REFUSED(reduce.group().expect_newcomers(-1), "-1 newcomers");
    EXPECT_EQ(reduce.step_commit().step, 0);
    StepGroupSpec spec;
    spec.shards = 3;
    EXPECT_REFUSED(StepGroup(comm, spec), "2 ranks are no replicas of 3");
    spec.joins = true;
    EXPECT_REFUSED(StepGroup(comm, spec), "must say which replica");
    spec = {};
    spec.shard = 1;
    EXPECT_REFUSED(StepGroup(comm, spec), "shard 1 of 1");
  });
}

TEST(FaultTolerant, RanksThatCommitDifferentCallsAreTold) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    StepGroup group(comm);
    EXPECT_EQ(group.commit(true, 5), StepOutcome::kCommitted);
    EXPECT_NE(
        refusal([&] { group.commit(true, static_cast<uint64_t>(rank)); }, ErrorKind::kRanksDiffer)
            .find("makes the same calls"),
        std::string::npos);
  });
}

// An instant that fails on one rank is a failure like any other: the step runs again.
TEST(FaultTolerant, AStepThatFailsOnOneRankRunsAgainWithTheSameInputs) {
  run_ranks(3, [](tuttiComm_t comm, int rank) {
    FaultTolerantSpec spec;
    int fails = rank == 1 ? 1 : 0;
    spec.group.at_instant = [&](StepInstant instant) {
      return instant != StepInstant::kWorked || fails-- <= 0;
    };
    FaultTolerantAllReduce reduce(comm, spec);
    std::vector<int32_t> values(100, rank), apart(100, rank * 10), sums(100);
    reduce.all_reduce(values.data(), values.data(), 100, tuttiInt32, tuttiSum);
    reduce.all_reduce(apart.data(), sums.data(), 100, tuttiInt32, tuttiSum);
    const StepReport report = reduce.step_commit();
    EXPECT_EQ(values, std::vector<int32_t>(100, 3));
    EXPECT_EQ(sums, std::vector<int32_t>(100, 30));
    EXPECT_EQ(report.epoch, 1u);
    EXPECT_EQ(report.runs, 2);
    EXPECT_EQ(report.step, 0);
  });
}

// A commit that only one rank has seen counts for all, with the results that they have.
TEST(FaultTolerant, ACommitThatOneRankHasSeenCounts) {
  run_ranks(3, [](tuttiComm_t comm, int rank) {
    FaultTolerantSpec spec;
    bool has_failed = false;
    spec.group.at_instant = [&](StepInstant instant) {
      if (instant != StepInstant::kCommitted || rank == 2 || has_failed) return true;
      has_failed = true;
      return false;
    };
    FaultTolerantAllReduce reduce(comm, spec);
    for (int step = 0; step < 3; ++step) {
      std::vector<int32_t> values(100, rank + step);
      reduce.all_reduce(values.data(), values.data(), 100, tuttiInt32, tuttiSum);
      const StepReport report = reduce.step_commit();
      EXPECT_EQ(report.step, step);
      EXPECT_EQ(report.epoch, step == 0 ? 0u : 1u);
      EXPECT_EQ(values, std::vector<int32_t>(100, 3 + 3 * step));
    }
  });
}

TEST(FaultTolerant, ANewcomerIsNotCountedUntilItHasCaughtUp) {
  tuttiUniqueId id;
  std::atomic<bool> has_id = false;
  std::thread newcomer([&] {
    while (!has_id) std::this_thread::yield();
    tuttiComm_t comm = nullptr;
    ASSERT_EQ(tuttiCommJoin(&comm, &id, nullptr), tuttiSuccess) << tuttiGetLastError(nullptr);
    FaultTolerantSpec spec;
    spec.group.joins = true;
    FaultTolerantAllReduce reduce(comm, spec);
    EXPECT_EQ(reduce.step(), 1);
    for (int step = 1; step < 4; ++step) {
      std::vector<float> values(3, 1000);
      std::vector<int32_t> integers(3, 1000);
      if (step == 2) reduce.group().caught_up();
      if (step == 3) values.assign(3, 4);
      if (step == 3) integers.assign(3, 4);
      std::vector<uint16_t> halves(3, bfloat(values[0]));
      std::vector<double> doubles(3, values[0]);
      reduce.all_reduce(values.data(), values.data(), 3, tuttiFloat32, tuttiAvg);
      reduce.all_reduce(integers.data(), integers.data(), 3, tuttiInt32, tuttiAvg);
      reduce.all_reduce(halves.data(), halves.data(), 3, tuttiBfloat16, tuttiAvg);
      reduce.all_reduce(doubles.data(), doubles.data(), 3, tuttiFloat64, tuttiAvg);
      const StepReport report = reduce.step_commit();
      EXPECT_EQ(report.divisor, step < 3 ? 2 : 3);
      EXPECT_EQ(values, std::vector<float>(3, step < 3 ? 1.5f : 3.0f)) << step;
      EXPECT_EQ(integers, std::vector<int32_t>(3, step < 3 ? 1 : 3)) << step;
      EXPECT_EQ(halves, std::vector<uint16_t>(3, bfloat(values[0]))) << step;
      EXPECT_EQ(doubles, std::vector<double>(3, values[0])) << step;
    }
    EXPECT_EQ(tuttiCommDestroy(comm), tuttiSuccess);
  });
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    FaultTolerantAllReduce reduce(comm);
    if (rank == 0) {
      ASSERT_EQ(tuttiCommGetUniqueId(comm, &id), tuttiSuccess);
      has_id = true;
      reduce.group().expect_newcomers(1);
    }
    EXPECT_EQ(reduce.step_commit().members.size(), 2u);
    for (int step = 1; step < 4; ++step) {
      const int own = step < 3 ? rank + 1 : rank * 3 + 1;  // 1 and 2, then 1 and 4
      std::vector<float> values(3, static_cast<float>(own));
      std::vector<int32_t> integers(3, own);
      std::vector<uint16_t> halves(3, bfloat(values[0]));
      std::vector<double> doubles(3, values[0]);
      reduce.all_reduce(values.data(), values.data(), 3, tuttiFloat32, tuttiAvg);
      reduce.all_reduce(integers.data(), integers.data(), 3, tuttiInt32, tuttiAvg);
      reduce.all_reduce(halves.data(), halves.data(), 3, tuttiBfloat16, tuttiAvg);
      reduce.all_reduce(doubles.data(), doubles.data(), 3, tuttiFloat64, tuttiAvg);
      const StepReport report = reduce.step_commit();
      EXPECT_EQ(report.members.size(), 3u);
      EXPECT_EQ(report.divisor, step < 3 ? 2 : 3);
      EXPECT_EQ(values, std::vector<float>(3, step < 3 ? 1.5f : 3.0f)) << step;
      EXPECT_EQ(integers, std::vector<int32_t>(3, step < 3 ? 1 : 3)) << step;
      EXPECT_EQ(halves, std::vector<uint16_t>(3, bfloat(values[0]))) << step;
      EXPECT_EQ(doubles, std::vector<double>(3, values[0])) << step;
    }
  });
  newcomer.join();
}

// Nobody comes: the group goes on, in an epoch more, without it.
TEST(FaultTolerant, GoesOnWithoutNewcomersThatDoNotCome) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    StepGroupSpec spec;
    spec.newcomers_ns = 50'000'000;
    StepGroup group(comm, spec);
    if (rank == 1) group.expect_newcomers(1);
    EXPECT_EQ(group.commit(true), StepOutcome::kCommitted);
    EXPECT_EQ(group.members().size(), 2u);
    EXPECT_EQ(group.commit(true), StepOutcome::kCommitted);
    EXPECT_EQ(group.report().step, 1);
  });
}

TEST(FaultTolerant, ReplicasReduceAcrossEachOther) {
  run_ranks(4, [](tuttiComm_t comm, int rank) {
    FaultTolerantSpec spec;
    spec.group.shards = 2;
    FaultTolerantAllReduce reduce(comm, spec);
    int across = 0;
    ASSERT_EQ(tuttiCommCount(reduce.group().across(), &across), tuttiSuccess);
    EXPECT_EQ(across, 2);
    std::vector<float> values(10, static_cast<float>(rank));
    reduce.all_reduce(values.data(), values.data(), 10, tuttiFloat32, tuttiAvg);
    const StepReport report = reduce.step_commit();
    EXPECT_EQ(report.divisor, 2);
    EXPECT_EQ(report.members[3].replica, 1);
    EXPECT_EQ(report.members[3].shard, 1);
    EXPECT_EQ(values, std::vector<float>(10, rank % 2 == 0 ? 1.0f : 2.0f));
  });
}

}  // namespace
}  // namespace tutti::runtime
