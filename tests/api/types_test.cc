// The types and operations that NCCL does not have: what each gives, and where there is none.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/api/crowd.h"
#include "tests/reference/number.h"

namespace tutti::api_test {
namespace {

constexpr int kRanks = 3;

template <class Element>
std::vector<Element> reduced(tuttiComm_t comm, tuttiDataType_t type, tuttiRedOp_t op,
                             const std::vector<Element>& mine) {
  std::vector<Element> result(mine.size());
  EXPECT_OK(
      tuttiAllReduce(mine.data(), result.data(), mine.size(), type, op, comm, tuttiBlocking()),
      comm);
  return result;
}

TEST(Types, BitsAreCombinedOneByOne) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    const auto bit = static_cast<int16_t>(1 << rank);
    const std::vector<int16_t> mine = {bit, static_cast<int16_t>(~bit), -1};
    EXPECT_EQ(reduced(comm, tuttiInt16, tuttiBitOr, mine), (std::vector<int16_t>{7, -1, -1}));
    EXPECT_EQ(reduced(comm, tuttiInt16, tuttiBitAnd, mine), (std::vector<int16_t>{0, ~7, -1}));
    EXPECT_EQ(reduced(comm, tuttiInt16, tuttiBitXor, mine), (std::vector<int16_t>{7, ~7, -1}));
  });
}

TEST(Types, SixteenBitsAreSignedOrNot) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    const std::vector<int16_t> mine = {static_cast<int16_t>(-rank), 20'000};
    EXPECT_EQ(reduced(comm, tuttiInt16, tuttiMin, mine), (std::vector<int16_t>{-2, 20'000}));
    EXPECT_EQ(reduced(comm, tuttiInt16, tuttiSum, mine), (std::vector<int16_t>{-3, -5'536}));
    const std::vector<uint16_t> large = {static_cast<uint16_t>(65'535 - rank), 20'000};
    EXPECT_EQ(reduced(comm, tuttiUint16, tuttiMax, large), (std::vector<uint16_t>{65'535, 20'000}));
    const std::vector<uint16_t> near = {static_cast<uint16_t>(rank + 1), 20'000};
    EXPECT_EQ(reduced(comm, tuttiUint16, tuttiAvg, near), (std::vector<uint16_t>{2, 20'000}));
  });
}

TEST(Types, BoolsStayBools) {
  run_ranks(kRanks, [](tuttiComm_t& comm, int rank) {
    // Nobody, the last one, all.
    const std::vector<uint8_t> mine = {0, uint8_t(rank == 2), 1};
    for (const tuttiRedOp_t any : {tuttiSum, tuttiMax, tuttiBitOr}) {
      EXPECT_EQ(reduced(comm, tuttiBool, any, mine), (std::vector<uint8_t>{0, 1, 1})) << any;
    }
    for (const tuttiRedOp_t all : {tuttiProd, tuttiMin, tuttiBitAnd}) {
      EXPECT_EQ(reduced(comm, tuttiBool, all, mine), (std::vector<uint8_t>{0, 0, 1})) << all;
    }
    EXPECT_EQ(reduced(comm, tuttiBool, tuttiBitXor, mine), (std::vector<uint8_t>{0, 1, 1}));
  });
}

// Every pair of a type and an operation is defined, or refused by each call that reduces.
TEST(Types, WhatMeansNothingIsRefused) {
  run_ranks(1, [](tuttiComm_t& comm, int) {
    for (int type = 0; type < reference::kTypes; ++type) {
      for (int op = 0; op < reference::kOps; ++op) {
        const auto element = static_cast<tuttiDataType_t>(type);
        const auto operation = static_cast<tuttiRedOp_t>(op);
        uint64_t send = 1, recv = 0;
        const size_t one = 1;
        const tuttiResult_t results[] = {
            tuttiAllReduce(&send, &recv, 1, element, operation, comm, tuttiBlocking()),
            tuttiReduce(&send, &recv, 1, element, operation, 0, comm, tuttiBlocking()),
            tuttiReduceScatter(&send, &recv, 1, element, operation, comm, tuttiBlocking()),
            tuttiReduceScatterV(&send, &recv, &one, element, operation, comm, tuttiBlocking())};
        const bool defined = reference::can_reduce(element, operation);
        for (const tuttiResult_t result : results) {
          EXPECT_EQ(result, defined ? tuttiSuccess : tuttiInvalidArgument)
              << reference::name_of(element) << " " << reference::name_of(operation);
        }
      }
    }
    tuttiRedOp_t scaled = tuttiSum;
    uint8_t scalar = 1;
    EXPECT_REFUSED(
        tuttiRedOpCreatePreMulSum(&scaled, &scalar, tuttiBool, tuttiScalarHostImmediate, comm),
        tuttiInvalidArgument, comm);
  });
}

}  // namespace
}  // namespace tutti::api_test
