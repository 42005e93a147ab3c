// Plans of training whose ranks change, sums and random numbers that do not depend on them, and
// state that survives: by threads. Processes that are killed: tests/kill/elastic_main.cc.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "src/base/prng.h"
#include "src/runtime/crew_test.h"
#include "tutti/runtime/elastic_plan.h"
#include "tutti/runtime/ordered_sum.h"
#include "tutti/runtime/random_stream.h"
#include "tutti/runtime/reshard.h"
#include "tutti/runtime/surviving_state.h"

namespace tutti::runtime {
namespace {

WorkProblem layers(const std::vector<int64_t>& costs, int stages) {
  WorkProblem problem;
  for (const int64_t cost : costs) {
    WorkItem item;
    item.unit_cost = cost;
    item.unit_memory = 1;
    problem.items.push_back(item);
  }
  problem.bins.resize(static_cast<size_t>(stages));
  return problem;
}

double slowest(const WorkProblem& problem, const Assignment& assignment,
               const std::vector<int64_t>& speeds) {
  const Judgement judged = judge(problem, assignment);
  double most = 0;
  for (size_t s = 0; s < judged.loads.size(); ++s) {
    most = std::max(most, static_cast<double>(judged.loads[s]) / static_cast<double>(speeds[s]));
  }
  return most;
}

/// The least time of the slowest stage, by trying all cuts.
double brute_force(const std::vector<int64_t>& costs, const std::vector<int64_t>& speeds,
                   size_t layer, size_t stage) {
  if (stage == speeds.size()) return layer == costs.size() ? 0 : 1e300;
  double best = 1e300, own = 0;
  for (size_t end = layer; end < costs.size(); ++end) {
    own += static_cast<double>(costs[end]) / static_cast<double>(speeds[stage]);
    best = std::min(best, std::max(own, brute_force(costs, speeds, end + 1, stage + 1)));
  }
  return best;
}

TEST(ElasticPlan, PartitionsAreAsGoodAsTryingAll) {
  Prng random(3);
  for (int round = 0; round < 200; ++round) {
    const int stages = 1 + static_cast<int>(random.below(5));
    const size_t count = static_cast<size_t>(stages) + random.below(8);
    std::vector<int64_t> costs, speeds;
    for (size_t i = 0; i < count; ++i) costs.push_back(1 + static_cast<int64_t>(random.below(20)));
    for (int s = 0; s < stages; ++s) speeds.push_back(1 + static_cast<int64_t>(random.below(4)));
    const WorkProblem problem = layers(costs, stages);
    const Assignment found = partition_layers(problem, speeds);
    EXPECT_NEAR(slowest(problem, found, speeds), brute_force(costs, speeds, 0, 0), 1e-9);
    for (size_t i = 1; i < found.slices.size(); ++i) {
      const int step = found.slices[i].bin - found.slices[i - 1].bin;
      EXPECT_TRUE(step == 0 || step == 1);
    }
  }
}

TEST(ElasticPlan, PartitionsKeepToMemoryAndMoveLittle) {
  WorkProblem problem = layers({1, 1, 1, 1, 1, 1, 1, 1}, 2);
  problem.bins[0].memory = 3;
  EXPECT_EQ(judge(problem, partition_layers(problem)).loads, (std::vector<int64_t>{3, 5}));
  problem.bins[1].memory = 4;
  EXPECT_INFEASIBLE(partition_layers(problem), "no 2 consecutive parts of 8 layers fit");
  // Four, two and two are as fast as two, two and four; layers stay where they are.
  problem = layers({1, 1, 1, 1, 1, 1, 4}, 3);
  for (int i = 0; i < 7; ++i) {
    problem.items[static_cast<size_t>(i)].home = i < 2 ? 0 : i < 6 ? 1 : 2;
    problem.items[static_cast<size_t>(i)].move_fixed = Bytes(10);
  }
  const Assignment found = partition_layers(problem);
  EXPECT_EQ(judge(problem, found).moved, Bytes(0));
  Assignment before = found;
  before.slices[5].bin = 2;
  EXPECT_EQ(layer_moves(before, found), (std::vector<LayerMove>{{5, 2, 1}}));
  EXPECT_REFUSED(partition_layers(layers({1}, 2)), "fewer than 2 stages");
  const int64_t stopped[] = {0};
  EXPECT_REFUSED(partition_layers(layers({1}, 1), stopped), "a speed is 0");
}

TEST(ElasticPlan, MicroBatchesAreSplitBySpeed) {
  const auto split = [](int64_t count, std::vector<int64_t> speeds) {
    return split_micro_batches(count, speeds);
  };
  EXPECT_EQ(split(8, {1, 1, 1}), (std::vector<int64_t>{3, 3, 2}));
  EXPECT_EQ(split(8, {1, 2, 1}), (std::vector<int64_t>{2, 4, 2}));
  EXPECT_EQ(split(5, {0, 3, 1}), (std::vector<int64_t>{0, 4, 1}));
  EXPECT_EQ(split(0, {1}), (std::vector<int64_t>{0}));
  EXPECT_REFUSED(split(3, {0, 0}), "somebody must");
  EXPECT_REFUSED(split(-1, {1}), "-1 micro-batches");
}

// The numbers of ElasWave: after the last of 8 ranks is lost, its eighth changes hands where shards
// are interleaved (of which its heir keeps a seventh), and a half of all where they are contiguous.
TEST(ElasticPlan, AnEighthMovesInsteadOfAHalf) {
  constexpr int64_t kSize = 8 * 7 * 12;
  const std::vector<int> heirs{0, 1, 2, 3, 4, 5, 6, 0};
  Sharding held = inherited(striped(kSize, 8, 4), heirs, 7);
  held.block = 4;
  const Sharding after = rebalanced(held, 7);
  EXPECT_EQ(moved(reshard(held, after)), kSize / 8 * 6 / 7);
  EXPECT_EQ(moved(reshard(inherited(even(kSize, 8), heirs, 7), even(kSize, 7))), kSize / 2);
  for (int rank = 0; rank < 7; ++rank) EXPECT_EQ(after.local_size(rank), kSize / 7);
  // A newcomer gets an eighth, and nothing else moves.
  const Sharding back = rebalanced(after, 8);
  EXPECT_EQ(moved(reshard(after, back)), kSize / 8);
  EXPECT_EQ(back.local_size(7), kSize / 8);
}

TEST(ElasticPlan, RebalancedKeepsBlocksAndAShortEnd) {
  Prng random(8);
  for (int round = 0; round < 300; ++round) {
    const int ranks = 1 + static_cast<int>(random.below(6));
    const int64_t block = 1 + static_cast<int64_t>(random.below(5));
    const int64_t size = 1 + static_cast<int64_t>(random.below(90));
    std::vector<int> owners(static_cast<size_t>((size + block - 1) / block));
    for (int& owner : owners) owner = static_cast<int>(random.below(static_cast<uint64_t>(ranks)));
    const Sharding held = blocks(std::span(&size, 1), block, owners, ranks);
    const int more = ranks + static_cast<int>(random.below(3));
    const Sharding after = rebalanced(held, more);
    EXPECT_NO_THROW(validate(after));
    const auto count = static_cast<int64_t>(owners.size());
    for (const Shard& shard : after.shards) EXPECT_EQ(shard.begin % block, 0);
    for (int rank = 0; rank < more; ++rank) {
      const int64_t held_blocks = (after.local_size(rank) + block - 1) / block;
      EXPECT_GE(held_blocks, count / more);
      EXPECT_LE(held_blocks, (count + more - 1) / more);
    }
  }
  EXPECT_REFUSED(rebalanced(even(4, 4), 3), "let others inherit");
  const int heirs[] = {0, 3};
  EXPECT_REFUSED(inherited(even(4, 2), heirs, 2), "an heir is rank 3 of 2");
}

// Salmon et al., the known answers of their library.
TEST(RandomStream, IsPhilox) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, BelongsToASample) {
  const auto draw = [](uint64_t seed, int64_t step, int64_t sample, int64_t layer) {
    RandomStream stream(seed, step, sample, layer);
    std::vector<uint32_t> drawn;
    for (int i = 0; i < 9; ++i) drawn.push_back(stream.next());
    return drawn;
  };
  const auto one = draw(1, 2, int64_t{3} << 33, 4);
  EXPECT_EQ(one, draw(1, 2, int64_t{3} << 33, 4));
  EXPECT_NE(one, draw(2, 2, int64_t{3} << 33, 4));
  EXPECT_NE(one, draw(1, 3, int64_t{3} << 33, 4));
  EXPECT_NE(one, draw(1, 2, int64_t{3} << 34, 4));
  EXPECT_NE(one, draw(1, 2, int64_t{3} << 33, 5));
  std::vector<float> mask(100'000);
  RandomStream(5, 0, 0, 0).dropout_mask(0.25f, mask);
  const auto dropped = std::count(mask.begin(), mask.end(), 0.0f);
  EXPECT_NEAR(static_cast<double>(dropped), 25'000, 700);
  EXPECT_FLOAT_EQ(*std::max_element(mask.begin(), mask.end()), 4.0f / 3);
  EXPECT_REFUSED(RandomStream(1, -1, 0, 0), "0 or more");
  EXPECT_REFUSED(RandomStream(1, 0, 0, int64_t{1} << 32), "layer");
  EXPECT_REFUSED(RandomStream(1, 0, 0, 0).dropout_mask(1, mask), "between 0 and 1");
}

constexpr int64_t kElements = 1001;

std::vector<float> gradient_of(int64_t number) {
  std::vector<float> values;
  for (int64_t i = 0; i < kElements; ++i) {
    values.push_back(1.0f / static_cast<float>(1 + number * 37 % 11 + i % 13));
  }
  return values;
}

/// The sum by ranks that do so many micro-batches each.
std::vector<float> sum_by(const std::vector<int64_t>& counts) {
  std::vector<float> result;
  int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  run_ranks(static_cast<int>(counts.size()), [&](tuttiComm_t comm, int rank) {
    OrderedSum sum(kElements, all, tuttiFloat32);
    int64_t number = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
    for (int64_t i = 0; i < counts[static_cast<size_t>(rank)]; ++i) {
      sum.add(number + i, gradient_of(number + i).data());
    }
    std::vector<float> total(kElements);
    sum.finish(comm, total.data());
    if (rank == 0) result = total;
  });
  return result;
}

TEST(OrderedSum, HasTheSameBitsForEverySplit) {
  const std::vector<float> one = sum_by({11});
  for (const std::vector<int64_t>& counts :
       std::vector<std::vector<int64_t>>{{4, 4, 3}, {1, 10}, {0, 5, 6}, {3, 2, 2, 2, 2}, {11, 0}}) {
    EXPECT_EQ(sum_by(counts), one);
  }
  // A left fold has other bits, so that the comparison means something.
  std::vector<float> folded(kElements, 0);
  for (int64_t n = 0; n < 11; ++n) {
    const std::vector<float> values = gradient_of(n);
    for (size_t i = 0; i < folded.size(); ++i) folded[i] += values[i];
  }
  EXPECT_NE(folded, one);
}

TEST(OrderedSum, SendsOneNodeWhereRanksHavePowersOfTwo) {
  run_ranks(4, [](tuttiComm_t comm, int rank) {
    OrderedSum sum(kElements, 16, tuttiFloat32);
    for (int64_t n = rank * 4; n < rank * 4 + 4; ++n) sum.add(n, gradient_of(n).data());
    std::vector<float> total(kElements);
    sum.finish(comm, total.data());
    EXPECT_EQ(sum.counters().nodes, 1);
  });
}

TEST(OrderedSum, RoundsHalvesOnce) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    // 256 + 1 + 1: each sum alone would be rounded back to 256.
    OrderedSum sum(1, 3, tuttiBfloat16);
    const uint16_t large = 0x4380, one = 0x3f80;
    if (rank == 0) sum.add(0, &large);
    if (rank == 0) sum.add(1, &one);
    if (rank == 1) sum.add(2, &one);
    uint16_t total = 0;
    sum.finish(comm, &total);
    EXPECT_EQ(total, 0x4381);  // 258
    OrderedSum doubles(2, 2, tuttiFloat64);
    const double values[2] = {0.1, 1e300};
    doubles.add(rank, values);
    double both[2] = {};
    doubles.finish(comm, both);
    EXPECT_EQ(both[0], 0.2);
    EXPECT_EQ(both[1], 2e300);
  });
}

TEST(OrderedSum, NamesWhatIsMissingOrTwice) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    const float value = 1;
    float total = 0;
    OrderedSum sum(1, 4, tuttiFloat32);
    const auto finish = [&](std::vector<int64_t> numbers) {
      for (const int64_t number : numbers) sum.add(number, &value);
      return refusal([&] { sum.finish(comm, &total); }, ErrorKind::kRanksDiffer);
    };
    EXPECT_EQ(finish(rank == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{3}),
              "micro-batch 2 was added by nobody");
    EXPECT_EQ(finish(rank == 0 ? std::vector<int64_t>{0, 1, 2} : std::vector<int64_t>{2, 3}),
              "micro-batch 2 was added by two ranks");
    EXPECT_EQ(finish(rank == 0 ? std::vector<int64_t>{0, 1, 2} : std::vector<int64_t>{}),
              "micro-batch 3 was added by nobody");
    EXPECT_EQ(finish(rank == 0 ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{2, 3}), "");
    EXPECT_EQ(total, 4);
    sum.add(2, &value);
    EXPECT_REFUSED(sum.add(2, &value), "ascending order");
    EXPECT_REFUSED(sum.add(4, &value), "micro-batch 4 of 4");
    sum.clear();
  });
}

SurvivingStateSpec counting_spec() {
  SurvivingStateSpec spec;
  spec.elements = 103;
  spec.element = Bytes(sizeof(int64_t));
  spec.stripe = 5;
  spec.initial = [](int64_t begin, int64_t end, std::byte* elements) {
    for (; begin < end; ++begin, elements += sizeof begin) {
      std::memcpy(elements, &begin, sizeof begin);
    }
  };
  return spec;
}

/// A step that adds 1000 to each element.
void add_thousand(SurvivingState& state) {
  state.begin();
  for (size_t at = 0; at < state.local().size(); at += sizeof(int64_t)) {
    int64_t value = 0;
    std::memcpy(&value, state.local().data() + at, sizeof value);
    value += 1000;
    std::memcpy(state.local().data() + at, &value, sizeof value);
  }
  state.end();
}

void expect_state(SurvivingState& state, int64_t steps) {
  std::vector<int64_t> all(103);
  state.begin();
  state.gather(std::as_writable_bytes(std::span(all)));
  for (int64_t i = 0; i < 103; ++i) EXPECT_EQ(all[static_cast<size_t>(i)], i + 1000 * steps);
}

TEST(SurvivingState, IsThatOfTheLastCommittedStepWhoeverLeaves) {
  run_ranks(4, [](tuttiComm_t comm, int rank) {
    StepGroup group(comm);
    SurvivingState state(group, counting_spec());
    for (int step = 0; step < 3; ++step) {
      group.run([&] { add_thousand(state); });
      state.committed();
    }
    if (rank == 2) {
      state.begin();
      throw RankIsLost();
    }
    group.run([&] { add_thousand(state); });
    state.committed();
    EXPECT_EQ(group.members().size(), 3u);
    expect_state(state, 4);
    EXPECT_EQ(state.counters().from_copies.value > 0, rank == 3);
    // Of the four, rank 0 leaves next: its partner is rank 1.
    if (rank == 0) throw RankIsLost();
    group.run([&] { add_thousand(state); });
    state.committed();
    expect_state(state, 5);
    tuttiBarrier(comm, tuttiBlocking());
  });
}

TEST(SurvivingState, ACopyThatChangedIsNotUsed) {
  run_ranks(2, [](tuttiComm_t comm, int rank) {
    StepGroup group(comm);
    SurvivingState state(group, counting_spec());
    group.run([&] { add_thousand(state); });
    state.committed();
    if (rank == 0) throw RankIsLost();
    if (rank == 1) const_cast<std::byte&>(state.copy()[3]) ^= std::byte{1};
    EXPECT_INFEASIBLE(group.run([&] { add_thousand(state); }), "digest differs");
  });
}

TEST(SurvivingState, RefusesWhatCannotBe) {
  run_ranks(1, [](tuttiComm_t comm, int) {
    StepGroup group(comm);
    SurvivingStateSpec spec = counting_spec();
    spec.partner = 0;
    EXPECT_REFUSED(SurvivingState(group, spec), "the partner is 0 ranks on");
    spec = counting_spec();
    spec.initial = nullptr;
    EXPECT_REFUSED(SurvivingState(group, spec), "no initial state");
    spec = counting_spec();
    spec.elements = 0;
    EXPECT_REFUSED(SurvivingState(group, spec), "0 elements");
    SurvivingState state(group, counting_spec());
    group.run([&] { add_thousand(state); });
    state.committed();
    expect_state(state, 1);
  });
}

}  // namespace
}  // namespace tutti::runtime
