// The calls of two ranks are compared in words, and the calls of a rank are found again by number.
#include "src/diagnosis/described_call.h"

#include <gtest/gtest.h>

#include <memory>

namespace tutti::diagnosis {
namespace {

using schedule::Collective;
using types::DataType;
using types::ReduceOp;

DescribedCall all_reduce_of(uint64_t count) {
  DescribedCall call;
  call.collective = Collective::kAllReduce;
  call.type = DataType::kFloat32;
  call.count = count;
  call.set_algorithm("ring:2");
  return call;
}

std::string compared(const DescribedCall& one, const DescribedCall& other) {
  return compare_text("rank 0", one, "rank 2", other).value_or("nothing");
}

TEST(DescribedCall, TextsNameBothAndTheFieldsThatDiffer) {
  const DescribedCall one = all_reduce_of(409600);
  EXPECT_EQ(compared(one, all_reduce_of(32768000)),
            "rank 0: all_reduce of 409600 float sum; rank 2: all_reduce of 32768000 float sum: "
            "count");
  DescribedCall other = one;
  other.type = DataType::kInt32;
  other.op = ReduceOp::kMax;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 409600 float sum; rank 2: all_reduce of 409600 int32 max: type, "
            "operation");
  other = one;
  other.collective = Collective::kBroadcast;
  other.root = 3;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 409600 float sum; rank 2: broadcast of 409600 float, root 3: "
            "collective");
  DescribedCall barrier;
  EXPECT_EQ(compared(barrier, one),
            "rank 0: barrier; rank 2: all_reduce of 409600 float sum: collective");
}

TEST(DescribedCall, AnEngineIsNamedWhereNoArgumentDiffers) {
  DescribedCall one = all_reduce_of(7), other = one;
  other.engine = EngineWish::kHost;
  other.set_algorithm("");
  EXPECT_EQ(compared(one, read_call(words_of(other)).value()),
            "rank 0: all_reduce of 7 float sum, engine auto; rank 2: all_reduce of 7 float sum, "
            "engine host: engine");
  other.count = 8;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 7 float sum; rank 2: all_reduce of 8 float sum: count");
}

TEST(DescribedCall, RootsCountForRootedCollectivesOnly) {
  DescribedCall one = all_reduce_of(7), other = one;
  other.root = 5;
  EXPECT_EQ(compared(one, other), "nothing");
  one.collective = other.collective = Collective::kGather;
  EXPECT_EQ(compared(one, other),
            "rank 0: gather of 7 float, root 0; rank 2: gather of 7 float, root 5: root");
}

TEST(DescribedCall, AlgorithmAndPlacementAreNamedWhereNoArgumentDiffers) {
  DescribedCall one = all_reduce_of(7), other = one;
  other.in_place = true;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 7 float sum, not in place; rank 2: all_reduce of 7 float sum, "
            "in place: placement");
  other.set_algorithm("an algorithm with a name too long");
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 7 float sum, algorithm ring:2; rank 2: all_reduce of 7 float "
            "sum, algorithm an algorithm with a name: algorithm");
  other.count = 8;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 7 float sum; rank 2: all_reduce of 8 float sum: count");
}

TEST(DescribedCall, PlacesInRegisteredMemoryAreNamed) {
  DescribedCall one = all_reduce_of(7), other = one;
  other.place = uint64_t{2} << 40 | 4096;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 7 float sum, not in registered memory; rank 2: all_reduce of 7 "
            "float sum, at byte 4096 of registered device memory 2: registered memory");
  EXPECT_EQ(read_call(words_of(other)), other);
}

TEST(DescribedCall, WhatAlgorithmsAreChosenByIsNamedBeforeThem) {
  DescribedCall one = all_reduce_of(7), other = one;
  one.model = 0xabc;
  other.model = 0x1234abcd;
  other.set_algorithm("two_shot");
  EXPECT_EQ(compared(one, other),
            "rank 0: all_reduce of 7 float sum, model 00000abc; rank 2: all_reduce of 7 float sum, "
            "model 1234abcd: model");
  EXPECT_EQ(read_call(words_of(other)), other);
}

TEST(DescribedCall, CountsOfVectorsAreOneField) {
  DescribedCall one = all_reduce_of(7), other;
  one.collective = Collective::kAllGather;
  one.has_counts = true;
  one.counts = 1;
  other = one;
  other.counts = 2;
  EXPECT_EQ(compared(one, other),
            "rank 0: all_gather_v of float; rank 2: all_gather_v of float: counts");
}

TEST(DescribedCall, WordsOfNoCallAreRefused) {
  const DescribedCall call = all_reduce_of(uint64_t{1} << 40);
  DescribedWords words = words_of(call);
  EXPECT_EQ(read_call(words), call);
  for (const int at : {0, 8, 16}) {
    DescribedWords wrong = words;
    wrong[0] |= uint64_t{0xff} << at;
    EXPECT_FALSE(read_call(wrong)) << at;
  }
}

TEST(CallLog, FindsTheCallThatANumberBelongsTo) {
  const std::unique_ptr<CallLog::Run[]> runs(new CallLog::Run[CallLog::kRuns]());
  CallLog log(runs.get());
  EXPECT_FALSE(CallLog::find(runs.get(), 1));
  constexpr uint32_t kFirst = ~uint32_t{0} - 10;  // numbers begin anew behind their last
  log.begin(kFirst, all_reduce_of(1));
  for (uint32_t i = 1; i < 5; ++i) log.begin(kFirst + i, all_reduce_of(1));
  EXPECT_EQ(log.runs(), 1u);
  log.begin(kFirst + 20, all_reduce_of(2));
  EXPECT_FALSE(CallLog::find(runs.get(), kFirst - 1));
  EXPECT_EQ(CallLog::find(runs.get(), kFirst), all_reduce_of(1));
  EXPECT_EQ(CallLog::find(runs.get(), kFirst + 19), all_reduce_of(1));
  EXPECT_EQ(CallLog::find(runs.get(), kFirst + 20), all_reduce_of(2));
}

TEST(CallLog, ForgetsTheOldest) {
  const std::unique_ptr<CallLog::Run[]> runs(new CallLog::Run[CallLog::kRuns]());
  CallLog log(runs.get());
  for (uint32_t i = 1; i <= CallLog::kRuns + 1; ++i) log.begin(i, all_reduce_of(i));
  EXPECT_FALSE(CallLog::find(runs.get(), 1));
  for (uint32_t i = 2; i <= CallLog::kRuns + 1; ++i) {
    EXPECT_EQ(CallLog::find(runs.get(), i), all_reduce_of(i));
  }
}

}  // namespace
}  // namespace tutti::diagnosis
