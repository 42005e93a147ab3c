// Calls of groups whose levels encode, executed: every algorithm and codec, on flat groups and on
// trees. All ranks have the same bits, results are near the exact ones, and as many bytes cross a
// level as the codec says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "src/exec/wired_domain_test.h"
#include "src/plan/bind.h"
#include "src/registry/algorithms.h"
#include "src/types/kernels.h"
#include "tests/support/sanitizer.h"
#include "tests/support/thorough.h"
#include "tools/verifier/plan_sweep.h"

namespace tutti::exec {
namespace {

using namespace domain_test;
using plan::Lowering;
using plan::Spread;

struct EncodedCase {
  Lowering lowering;
  uint64_t count = 0;
  types::DataType type = types::DataType::kFloat32;
  types::ReduceOp op = types::ReduceOp::kSum;
  uint64_t far_slices = 0;
};

/// Bytes of the elements of a rank's buffers, in place or not.
struct ElementBuffers {
  std::vector<std::byte> input, output;
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

std::vector<std::byte> random_elements(types::DataType type, uint64_t count, uint64_t seed) {
  std::vector<float> values(count);
  std::mt19937_64 random(seed);
  for (float& value : values) value = static_cast<float>(random() >> 40) * 0x1p-23f - 1.0f;
  const codecs::Codec codec = plan::codec_of(type).value();
  std::vector<std::byte> bytes(plan::bytes_of(codec, count) + 1);
  codec.family->kernels().encode(codec.numbers, values, bytes.data());
  return bytes;
}

std::vector<float> floats_of(types::DataType type, const std::byte* bytes, uint64_t count) {
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    values[i] = types::to_float(type, bytes + i * types::size_of(type));
  }
  return values;
}

class EncodedRun {
 public:
  explicit EncodedRun(const EncodedCase& wanted)
      : case_(wanted),
        group_(plan::group_of(wanted.lowering.parameters.ranks, wanted.lowering.spread), 64 << 10),
        matches_(plan::match_all(wanted.lowering).value()) {}

  /// The error of a call, or what is wrong with its results; "" if nothing.
  std::string run() {
    plan::Tuning tuning = plan::small_tuning(false);
    tuning.frame_bytes = 4096;
    tuning.stream_bytes = 2048;
    std::vector<plan::Plan> plans;
    for (plan::Match& match : matches_) {
      if (case_.op == types::ReduceOp::kAvg) {
        Status status = plan::count_terms(match, *case_.lowering.algorithm, parameters());
        if (!status.ok()) return std::string(status.message());
      }
      plan::BindRequest request{case_.count, case_.type, case_.op};
      request.far_slices = case_.far_slices;
      plans.push_back(plan::bind(match, request, tuning));
    }
    const std::vector<HostProgram> programs(plans.begin(), plans.end());
    for (int round = 0; round < 2; ++round) {
      std::vector<Call> calls;
      buffers_.clear();
      for (int rank = 0; rank < parameters().ranks; ++rank) add(rank, calls);
      const Status status = group_.run(programs, calls);
      if (!status.ok()) return std::string(status.message());
      if (std::string wrong = check(); !wrong.empty()) return wrong;
    }
    return {};
  }

  uint64_t bytes_across(const char* name) {
    for (size_t level = 0; level < group_.group()->levels(); ++level) {
      if (group_.group()->level(level).name != name) continue;
      return group_.board().bytes_across(*group_.group(), level);
    }
    return 0;
  }

 private:
  const schedule::Parameters& parameters() const { return case_.lowering.parameters; }
  uint64_t outputs(int rank) const {
    return schedule::output_elements(matches_[0].shape, rank, case_.count);
  }

  void add(int rank, std::vector<Call>& calls) {
    const plan::Match& match = matches_[static_cast<size_t>(rank)];
    const uint64_t in = schedule::input_elements(match.shape, rank, case_.count);
    const uint64_t size = types::size_of(case_.type);
    ElementBuffers& b = buffers_.emplace_back();
    b.input = random_elements(case_.type, in, static_cast<uint64_t>(rank) + 1);
    exact_.resize(buffers_.size());
    exact_[static_cast<size_t>(rank)] = floats_of(case_.type, b.input.data(), in);
    b.output.assign(std::max(in, outputs(rank)) * size + 1, std::byte{0x5a});
    b.send = b.input.data();
    b.recv = b.output.data();
    if (match.in_place) {
      const schedule::Traits& traits = schedule::traits_of(match.shape.collective);
      const uint64_t part = static_cast<uint64_t>(rank) * case_.count * size;
      b.send = b.output.data() + (traits.nests(schedule::Space::kInput) ? part : 0);
      b.recv = b.output.data() + (traits.nests(schedule::Space::kOutput) ? part : 0);
      std::copy_n(b.input.data(), in * size, b.send);
    }
    Call& call = calls.emplace_back();
    call.send = b.send;
    call.recv = b.recv;
    call.signature = call.far_signature = 77;
  }

  float exact(int rank, uint64_t i) const {
    const int n = parameters().ranks;
    const auto at = [&](int source, uint64_t element) {
      return exact_[static_cast<size_t>(source)][element];
    };
    const auto sum = [&](uint64_t element) {
      double all = 0;
      for (int source = 0; source < n; ++source) all += static_cast<double>(at(source, element));
      return static_cast<float>(case_.op == types::ReduceOp::kAvg ? all / n : all);
    };
    const uint64_t part = static_cast<uint64_t>(rank) * case_.count;
    const auto owner = static_cast<int>(i / case_.count);
    switch (case_.lowering.algorithm->collective) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        return sum(i);
      case Collective::kReduceScatter:
        return sum(part + i);
      case Collective::kAllGather:
      case Collective::kGather:
        return at(owner, i % case_.count);
      case Collective::kScatter:
        return at(parameters().root, part + i);
      case Collective::kBroadcast:
        return at(parameters().root, i);
      case Collective::kAllToAll:
        return at(owner, part + i % case_.count);
      case Collective::kBarrier:
        break;
    }
    return 0;
  }

  // A value of magnitude up to n is encoded at most so often, each time with an error of at most a
  // third of the largest in its block (e3m0).
  std::string check() const {
    const schedule::Traits& traits = schedule::traits_of(matches_[0].shape.collective);
    const int n = parameters().ranks;
    const float bound =
        (traits.reduces ? static_cast<float>(n) * static_cast<float>(n) : 1.0f) * 0.34f;
    for (int rank = 0; rank < n; ++rank) {
      const ElementBuffers& b = buffers_[static_cast<size_t>(rank)];
      const std::vector<float> found = floats_of(case_.type, b.recv, outputs(rank));
      for (uint64_t i = 0; i < found.size(); ++i) {
        if (std::fabs(found[i] - exact(rank, i)) <= bound) continue;
        return "rank " + std::to_string(rank) + " has " + std::to_string(found[i]) + " at " +
               std::to_string(i) + " instead of about " + std::to_string(exact(rank, i));
      }
      const bool is_shared =
          traits.output.holder == schedule::Holder::kEverybody && !traits.input.parts;
      const uint64_t bytes = outputs(rank) * types::size_of(case_.type);
      if (is_shared && std::memcmp(b.recv, buffers_[0].recv, bytes) != 0) {
        return "rank " + std::to_string(rank) + " has other bits than rank 0";
      }
    }
    return {};
  }

  const EncodedCase case_;
  WiredGroup group_;
  std::vector<plan::Match> matches_;
  std::vector<ElementBuffers> buffers_;
  std::vector<std::vector<float>> exact_;
};

std::string print(const EncodedCase& one) {
  return plan::print(one.lowering) + ", count " + std::to_string(one.count) + " of " +
         types::name_of(one.type) + ", far slices " + std::to_string(one.far_slices);
}

/// Those of 16 bits cannot hold every decoded value, so where somebody must encode again it runs
/// exact (Rounding::encodes_again).
bool may_run(const EncodedCase& one) {
  if (one.type == types::DataType::kFloat32) return true;
  return !plan::match_all(one.lowering).value()[0].rounding.encodes_again;
}

class EncodedCalls : public testing::TestWithParam<int> {};

TEST_P(EncodedCalls, HaveTheSameBitsOnAllRanks) {
  constexpr const char* kCodecs[] = {"none",     "bf16",          "fp16",         "fp8_e4m3",
                                     "fp8_e5m2", "int8_block:24", "int4_block:8", "e3m0:16",
                                     "log_byte", "top_k:16:16:8"};
  constexpr types::DataType kTypes[] = {types::DataType::kFloat32, types::DataType::kBfloat16,
                                        types::DataType::kFloat16};
  uint64_t number = 0, ran = 0;
  for (const schedule::Algorithm& algorithm : registry::algorithms()) {
    if (algorithm.collective == Collective::kBarrier) continue;
    for (Lowering lowering : plan::encoded_lowerings(algorithm, GetParam())) {
      // Each lowering meets some of the codecs, each codec all collectives.
      const size_t stride = testing_support::thorough() ? 1 : 6;
      for (size_t c = number++ % stride; c < std::size(kCodecs); c += stride) {
        EncodedCase one;
        one.lowering = lowering;
        const std::string codec = kCodecs[c];
        const bool regions = lowering.spread == Spread::kTwoRegions;
        one.lowering.wire = "network:" + codec + (regions ? ",region:int8_block:8" : "");
        if (regions && number % 2 == 0) one.lowering.wire = "region:" + codec;
        if (!codecs::parse_wire(one.lowering.wire).ok()) continue;  // blocks that do not fit
        one.count = 1 + number * 37 % 1500;
        one.type = kTypes[number % 3];
        one.far_slices = number % 4;
        if (schedule::reduces(algorithm.collective) && number % 5 == 0) {
          one.op = types::ReduceOp::kAvg;
        }
        if (!may_run(one)) continue;
        const std::string wrong = EncodedRun(one).run();
        EXPECT_EQ(wrong, "") << print(one);
        ++ran;
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  EXPECT_GT(ran, 100u);
}

INSTANTIATE_TEST_SUITE_P(Ranks, EncodedCalls, testing::Range(2, 10));

// The bytes that cross are those of the codec: 260 for 256 values of 1024.
TEST(EncodedBytes, AreTheCodecsShareOfThoseOfElements) {
  struct Ratio {
    const char* codec;
    double share;
  };
  constexpr Ratio kRatios[] = {{"bf16", 0.5},
                               {"fp8_e4m3", 0.25},
                               {"int8_block:256", 260.0 / 1024},
                               {"int4_block:256", 132.0 / 1024},
                               {"e3m0:256", 129.0 / 1024}};
  for (const char* name : {"all_reduce/ring", "all_reduce/hierarchical", "all_gather/direct",
                           "broadcast/binomial", "all_to_all/pairwise"}) {
    const std::string wanted = name;
    for (const schedule::Algorithm& algorithm : registry::algorithms()) {
      const std::string full = std::string(schedule::name_of(algorithm.collective)) + "/";
      if (full + std::string(algorithm.name) != wanted) continue;
      EncodedCase one;
      one.lowering = {&algorithm, {.ranks = 4}, Spread::kTwoDomains};
      if (algorithm.loads != nullptr) {
        one.lowering.parameters.tree =
            schedule::NodeTree::make({{0, 0, 1, 1}, {0, 0, 0, 0}}).value();
      }
      one.count = 4 * 2048;
      EncodedRun exact(one);
      ASSERT_EQ(exact.run(), "");
      ASSERT_GT(exact.bytes_across("network"), 0u);
      for (const Ratio& ratio : kRatios) {
        one.lowering.wire = std::string("network:") + ratio.codec;
        EncodedRun encoded(one);
        ASSERT_EQ(encoded.run(), "") << print(one);
        const auto bytes = static_cast<double>(encoded.bytes_across("network"));
        EXPECT_DOUBLE_EQ(bytes / static_cast<double>(exact.bytes_across("network")), ratio.share)
            << print(one);
      }
    }
  }
}

}  // namespace
}  // namespace tutti::exec
