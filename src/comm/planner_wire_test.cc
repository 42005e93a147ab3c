// Which requests of a group are encoded, by the planner alone: where it pays, and where it can be.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "src/comm/planner.h"
#include "src/registry/algorithms.h"

namespace tutti::comm {
namespace {

using schedule::Collective;

/// Two hosts of two ranks, with a network of so many nanoseconds a byte.
PlannerOptions on_two_hosts(double ns_per_byte) {
  PlannerOptions options;
  options.host.algorithms = registry::algorithms();
  options.group = group::group_on_hosts({0, 0, 1, 1});
  options.cores = 2;
  options.model.levels = {{"network", 30'000, ns_per_byte}};
  return options;
}

struct Asked {
  Extras extras;
  Request request;
  Asked(uint64_t count, const char* wire, types::DataType type = types::DataType::kFloat32) {
    extras.options.emplace().wire = codecs::wire_text(codecs::parse_wire(wire).value());
    request = {
        .collective = Collective::kAllReduce, .type = type, .count = count, .extras = &extras};
  }
};

bool encodes(Planner& planner, const Request& request) {
  const Result<const Prepared*> made = planner.host().prepare(request, false, {});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() && made.value()->plan.encoded_bytes > 0;
}

TEST(PlannerWire, WhatRanksMeasuredDecidesWhetherEncodingPays) {
  constexpr uint64_t kLong = 16 << 20;
  PlannerOptions slow = on_two_hosts(8);
  slow.model.codecs = {{"int8_block:256", {400, 100}}};  // by a processor without vectors, say
  Planner planner(slow), usual(on_two_hosts(8));
  const Asked asked(kLong, "network:int8_block");
  EXPECT_FALSE(encodes(planner, asked.request));
  EXPECT_TRUE(encodes(usual, asked.request));
  EXPECT_TRUE(encodes(planner, Asked(kLong, "network:bf16").request));  // nobody measured that one
  const auto says = [&](Planner& one, const char* words) {
    const std::string text = one.host().explain_wire(asked.request, false);
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  says(planner,
       "int8_block:256: 400 ns to encode a value, 100 ns to decode it, as the ranks measured");
  says(usual, "to decode it, as the library knows by itself");
}

TEST(PlannerWire, EncodesWhereThatTakesLessTime) {
  constexpr uint64_t kLong = 16 << 20;
  Planner slow(on_two_hosts(8)), fast(on_two_hosts(0.1));
  EXPECT_TRUE(encodes(slow, Asked(kLong, "network:int8_block").request));
  EXPECT_FALSE(encodes(fast, Asked(kLong, "network:int8_block").request));
  EXPECT_TRUE(encodes(fast, Asked(kLong, "always,network:int8_block").request));
  EXPECT_FALSE(encodes(slow, Asked(kLong, "region:int8_block").request));
  EXPECT_FALSE(encodes(slow, Asked(kLong, "host:int8_block").request));
}

TEST(PlannerWire, SumsOfFloatsAreEncodedAndNothingElse) {
  Planner planner(on_two_hosts(8));
  constexpr uint64_t kLong = 1 << 20;
  const char* wire = "always,network:bf16";
  EXPECT_TRUE(encodes(planner, Asked(kLong, wire).request));
  EXPECT_FALSE(encodes(planner, Asked(kLong, wire, types::DataType::kInt32).request));
  EXPECT_FALSE(encodes(planner, Asked(kLong, wire, types::DataType::kFloat64).request));
  Asked greatest(kLong, wire);
  greatest.request.op = types::ReduceOp::kMax;
  EXPECT_FALSE(encodes(planner, greatest.request));
  EXPECT_NE(planner.host().explain_wire(greatest.request, false).find("sums and averages"),
            std::string::npos);
}

// Calls that ranks would encode differently do not match.
TEST(PlannerWire, SignaturesDiffer) {
  Planner planner(on_two_hosts(8));
  std::vector<uint32_t> signatures;
  for (const char* wire : {"", "always,network:bf16", "network:bf16", "network:int8_block:8"}) {
    const Result<const Prepared*> made =
        planner.host().prepare(Asked(1 << 20, wire).request, false, {});
    ASSERT_TRUE(made.ok()) << made.status().message();
    for (const uint32_t other : signatures) EXPECT_NE(made.value()->far_signature, other) << wire;
    signatures.push_back(made.value()->far_signature);
  }
}

TEST(PlannerWire, DroppedValuesAreNotSummed) {
  Planner planner(on_two_hosts(8));
  Asked asked(1 << 20, "network:top_k");
  const Result<const Prepared*> made = planner.host().prepare(asked.request, false, {});
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.status().message().find("all_gather the bytes"), std::string::npos);
  asked.request.collective = Collective::kAllGather;
  EXPECT_TRUE(encodes(planner, asked.request));
}

}  // namespace
}  // namespace tutti::comm
