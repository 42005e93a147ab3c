// Scaled sums: every type, a scalar for each rank, immediate or in memory, and what is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/reference/number.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 3;

// Sums of 1 and 2 with these are exact in every type.
float factor_of(int rank) { return rank == 1 ? 2.0f : 1.0f; }

class Elements {
 public:
  Elements(int type, size_t count)
      : type_(static_cast<tuttiDataType_t>(type)),
        size_(reference::size_of(type_)),
        bytes_(count * size_) {}

  std::byte* data(size_t index = 0) { return bytes_.data() + index * size_; }
  float at(size_t index) {
    return static_cast<float>(reference::decode(type_, reference::load(type_, data(index))));
  }
  void set(size_t index, float value) {
    const uint64_t bits =
        reference::is_float(type_) ? reference::encode(type_, value) : static_cast<uint64_t>(value);
    reference::store(type_, data(index), bits);
  }

 private:
  tuttiDataType_t type_;
  size_t size_;
  std::vector<std::byte> bytes_;
};

tuttiRedOp_t scaled_sum(tuttiComm_t comm, int type, float factor) {
  Elements scalar(type, 1);
  scalar.set(0, factor);
  tuttiRedOp_t op = tuttiSum;
  EXPECT_OK(tuttiRedOpCreatePreMulSum(&op, scalar.data(), static_cast<tuttiDataType_t>(type),
                                      tuttiScalarHostImmediate, comm),
            comm);
  return op;
}

float input(size_t index) { return static_cast<float>(1 + index % 2); }
float expected(size_t index) { return input(index) * 4; }

void check_type(tuttiComm_t comm, int rank, int type, size_t count) {
  const auto data_type = static_cast<tuttiDataType_t>(type);
  const tuttiStream_t stream = tuttiBlocking();
  const tuttiRedOp_t op = scaled_sum(comm, type, factor_of(rank));
  Elements send(type, kRanks * count), recv(type, count);
  for (size_t i = 0; i < kRanks * count; ++i) send.set(i, input(i));
  EXPECT_OK(tuttiAllReduce(send.data(), recv.data(), count, data_type, op, comm, stream), comm);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(recv.at(i), expected(i)) << type << " at " << i;
  const size_t mine = static_cast<size_t>(rank) * count;
  EXPECT_OK(tuttiReduceScatter(send.data(), recv.data(), count, data_type, op, comm, stream), comm);
  for (size_t i = 0; i < count; ++i) {
    ASSERT_EQ(recv.at(i), expected(mine + i)) << type << " at " << i;
    ASSERT_EQ(send.at(mine + i), input(mine + i)) << "the input is only read";
  }
  EXPECT_OK(tuttiAllReduce(send.data(), send.data(), count, data_type, op, comm, stream), comm);
  for (size_t i = 0; i < count; ++i) ASSERT_EQ(send.at(i), expected(i)) << "in place";
  EXPECT_OK(tuttiReduceScatter(send.data(), send.data(mine), count, data_type, op, comm, stream),
            comm);
  EXPECT_OK(tuttiRedOpDestroy(op, comm), comm);
}

TEST(Operations, EveryTypeAndPlacement) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    for (int type = 0; type < reference::kTypes; ++type) {
      if (!reference::can_scale(static_cast<tuttiDataType_t>(type))) continue;
      for (size_t count : {size_t{3}, size_t{2000}, size_t{30'000}}) {
        check_type(comm, rank, type, count);
      }
    }
  });
}

// Blocking, and begun by the engine after the vectors and the operation are gone.
TEST(Operations, SharesThatDiffer) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    tuttiStream_t queue;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    const size_t begin[kRanks] = {0, 0, 5}, shares[kRanks] = {0, 5, 3000};
    const size_t first = begin[rank], own = shares[rank];
    for (const tuttiStream_t& stream : {tuttiBlocking(), queue}) {
      for (const bool in_place : {false, true}) {
        std::vector<size_t> counts(shares, shares + kRanks);
        Elements send(tuttiInt32, 3005), recv(tuttiInt32, 3000);
        for (size_t i = 0; i < 3005; ++i) send.set(i, input(i));
        const tuttiRedOp_t op = scaled_sum(comm, tuttiInt32, factor_of(rank));
        EXPECT_OK(tuttiReduceScatterV(send.data(), in_place ? send.data(first) : recv.data(),
                                      counts.data(), tuttiInt32, op, comm, stream),
                  comm);
        counts.assign(kRanks, 12345);
        EXPECT_OK(tuttiRedOpDestroy(op, comm), comm);
        EXPECT_OK(tuttiStreamSynchronize(queue), nullptr);
        for (size_t i = 0; i < own; ++i) {
          const float found = in_place ? send.at(first + i) : recv.at(i);
          ASSERT_EQ(found, expected(first + i)) << "rank " << rank << " at " << i;
        }
      }
    }
    EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
  });
}

// A double would lose the low bits of this factor.
TEST(Operations, IntegersWrapAndKeepAllBits) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    uint64_t scalar = rank == 0 ? 0x8000000000000001u : 3;
    uint64_t send = 5, recv = 0;
    tuttiRedOp_t op = tuttiSum;
    EXPECT_OK(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiUint64, tuttiScalarHostImmediate, comm),
              comm);
    EXPECT_OK(tuttiAllReduce(&send, &recv, 1, tuttiUint64, op, comm, tuttiBlocking()), comm);
    EXPECT_EQ(recv, 0x8000000000000001u * 5 + 15);
  });
}

TEST(Operations, AScalarInMemoryIsReadByEveryCall) {
  run_ranks(2, [](tuttiComm_t& comm, int) {
    tuttiStream_t stream;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    double scalar = 2, send = 1, recv = 0;
    tuttiRedOp_t op = tuttiSum;
    EXPECT_OK(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat64, tuttiScalarDevice, comm), comm);
    for (int round = 0; round < 3; ++round, scalar += 1) {
      EXPECT_OK(tuttiAllReduce(&send, &recv, 1, tuttiFloat64, op, comm, stream), comm);
      EXPECT_OK(tuttiStreamSynchronize(stream), nullptr);
      EXPECT_EQ(recv, 2 * scalar);
    }
    EXPECT_OK(tuttiStreamDestroy(stream), nullptr);
  });
}

TEST(Operations, DestroyedBeforeTheCallRuns) {
  run_ranks(2, [](tuttiComm_t& comm, int rank) {
    const tuttiStream_t blocking = tuttiBlocking();
    tuttiStream_t queue;
    ASSERT_EQ(tuttiStreamCreate(&queue), tuttiSuccess);
    for (const tuttiStream_t& stream : {blocking, queue}) {
      int send[2] = {1, 2}, recv[2] = {0, 0};
      const tuttiRedOp_t op = scaled_sum(comm, tuttiInt32, static_cast<float>(rank + 2));
      EXPECT_EQ(tuttiGroupStart(), tuttiSuccess);
      EXPECT_OK(tuttiAllReduce(send, recv, 1, tuttiInt32, op, comm, stream), comm);
      EXPECT_OK(tuttiAllReduce(send + 1, recv + 1, 1, tuttiInt32, op, comm, stream), comm);
      EXPECT_OK(tuttiRedOpDestroy(op, comm), comm);
      EXPECT_OK(tuttiGroupEnd(), nullptr);
      EXPECT_OK(tuttiStreamSynchronize(stream), nullptr);
      EXPECT_EQ(recv[0], 5);
      EXPECT_EQ(recv[1], 10);
    }
    EXPECT_OK(tuttiStreamDestroy(queue), nullptr);
  });
}

TEST(Operations, WhatIsRefused) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    float scalar = 1, x = 1, y = 0;
    tuttiRedOp_t op = tuttiSum;
    const auto create = [&](tuttiRedOp_t* made, float* value, int type, int residence) {
      return tuttiRedOpCreatePreMulSum(made, value, static_cast<tuttiDataType_t>(type),
                                       static_cast<tuttiScalarResidence_t>(residence), comm);
    };
    EXPECT_REFUSED(create(nullptr, &scalar, tuttiFloat32, 1), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(create(&op, nullptr, tuttiFloat32, 1), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(create(&op, &scalar, 15, 1), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(create(&op, &scalar, tuttiBool, 1), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(create(&op, &scalar, tuttiFloat32, 2), tuttiInvalidArgument, comm);
    EXPECT_EQ(op, tuttiSum);
    EXPECT_OK(create(&op, &scalar, tuttiFloat32, 1), comm);
    const tuttiStream_t stream = tuttiBlocking();
    EXPECT_REFUSED(tuttiAllReduce(&x, &y, 1, tuttiInt32, op, comm, stream), tuttiInvalidArgument,
                   comm);
    EXPECT_REFUSED(tuttiAllReduce(nullptr, &y, 1, tuttiFloat32, op, comm, stream),
                   tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiRedOpDestroy(tuttiSum, comm), tuttiInvalidArgument, comm);
    run_ranks(1, [&](tuttiComm_t& other, int) {
      EXPECT_REFUSED(tuttiAllReduce(&x, &y, 1, tuttiFloat32, op, other, stream),
                     tuttiInvalidArgument, other);
      EXPECT_REFUSED(tuttiRedOpDestroy(op, other), tuttiInvalidArgument, other);
    });
    EXPECT_OK(tuttiRedOpDestroy(op, comm), comm);
    EXPECT_REFUSED(tuttiRedOpDestroy(op, comm), tuttiInvalidArgument, comm);
    EXPECT_REFUSED(tuttiAllReduce(&x, &y, 1, tuttiFloat32, op, comm, stream), tuttiInvalidArgument,
                   comm);
  });
}

// A sum is not a scaled sum with the scalar one: all ranks make the same call.
TEST(Operations, AScaledSumIsAnotherCall) {
  std::atomic<int> noticed{0};
  run_ranks(2, [&](tuttiComm_t& comm, int rank) {
    set_deadline(comm, 60'000);
    float x = 1, y = 0;
    const tuttiRedOp_t op = rank == 0 ? tuttiSum : scaled_sum(comm, tuttiFloat32, 1);
    const tuttiResult_t result = tuttiAllReduce(&x, &y, 1, tuttiFloat32, op, comm, tuttiBlocking());
    // One of them notices; the other may hear of that first.
    EXPECT_TRUE(result == tuttiInvalidUsage || result == tuttiRemoteError) << message_of(comm);
    if (result == tuttiInvalidUsage) noticed.fetch_add(1);
  });
  EXPECT_GE(noticed.load(), 1);
}

}  // namespace
}  // namespace tutti::api_test
