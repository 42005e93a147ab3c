// Ragged FSDP: training_systems 3.1, R1 to R3.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "src/runtime/crew_test.h"
#include "tutti/runtime/exchange.h"
#include "tutti/runtime/ragged_fsdp.h"

namespace tutti::runtime {
namespace {

using Tensors = std::vector<BucketTensor>;

bool is_legal(const BucketTensor& tensor, int64_t begin, int64_t share, int ranks) {
  if (begin + tensor.elements > share * ranks) return false;
  for (int64_t k = 1; k < ranks; ++k) {
    const int64_t cut = k * share - begin;
    if (cut > 0 && cut < tensor.elements && cut % tensor.block != 0) return false;
  }
  return true;
}

/// Any legal places in this order, tried one after the other.
bool is_feasible(const Tensors& tensors, size_t next, int64_t from, int64_t share, int ranks) {
  if (next == tensors.size()) return true;
  for (int64_t begin = from; begin + tensors[next].elements <= share * ranks; ++begin) {
    if (is_legal(tensors[next], begin, share, ranks) &&
        is_feasible(tensors, next + 1, begin + tensors[next].elements, share, ranks)) {
      return true;
    }
  }
  return false;
}

void expect_sound(const BucketPlan& plan) {
  int64_t end = 0;
  for (size_t t = 0; t < plan.tensors.size(); ++t) {
    EXPECT_GE(plan.offsets[t], end);
    EXPECT_TRUE(is_legal(plan.tensors[t], plan.offsets[t], plan.share, plan.ranks));
    end = plan.offsets[t] + plan.tensors[t].elements;
  }
}

const Tensors kExample{{12, 4}, {6, 2}, {10, 5}, {8, 8}};

// 3.1 (e), R1.
TEST(RuntimeBucketPlan, ThePapersExampleHasTheseShares) {
  EXPECT_EQ(plan_bucket(kExample, 2, 1).share, 18);
  EXPECT_EQ(plan_bucket(kExample, 2, 1).padding(), 0);
  EXPECT_EQ(plan_bucket(kExample, 3, 1).share, 13);
  EXPECT_EQ(plan_bucket(kExample, 3, 1).offsets, (std::vector<int64_t>{0, 13, 21, 31}));
  EXPECT_EQ(plan_bucket(kExample, 4, 1).share, 10);
  EXPECT_EQ(plan_bucket(kExample, 4, 1).offsets, (std::vector<int64_t>{2, 14, 20, 30}));
  Tensors order = kExample;
  const auto less = [](const BucketTensor& a, const BucketTensor& b) { return a.block < b.block; };
  std::sort(order.begin(), order.end(), less);
  int64_t best = INT64_MAX;
  do {
    best = std::min(best, plan_bucket(order, 3, 1).share);
  } while (std::next_permutation(order.begin(), order.end(), less));
  EXPECT_EQ(best, 12);
}

// 3.1 (e), R2: feasibility is not monotone in the share.
TEST(RuntimeBucketPlan, AShareOfFourFitsAndFiveDoesNot) {
  const Tensors one{{12, 4}};
  EXPECT_EQ(plan_bucket(one, 4, 1).share, 4);
  EXPECT_EQ(plan_bucket(one, 4, 5).share, 10);  // multiples of five: 5 does not fit, 10 does
  for (const int64_t share : {5, 6, 7}) EXPECT_FALSE(is_feasible(one, 0, 0, share, 4));
  for (const int64_t share : {4, 8, 9, 10}) EXPECT_TRUE(is_feasible(one, 0, 0, share, 4));
}

// 3.1 (e), R3.
TEST(RuntimeBucketPlan, FusedExpertsPadInAStaircase) {
  const auto padding = [](int ranks) {
    const BucketPlan plan = plan_bucket(Tensors{{128 * 2880, 128}}, ranks, 1);
    return std::round(1e4 * double(plan.padding()) / (128 * 2880)) / 100;
  };
  for (const int ranks : {64, 96, 160, 192}) EXPECT_EQ(padding(ranks), 0);
  EXPECT_EQ(padding(128), 2.22);
  EXPECT_EQ(padding(224), 1.11);
  EXPECT_EQ(padding(256), 6.67);
}

// 3.1 (e): 128 experts on 256 ranks; whole rows each double the buffer, ragged shares do not.
TEST(RuntimeBucketPlan, RaggedSharesNeedNoRowPadding) {
  const int64_t row = 64, rows = 128, ranks = 256;
  EXPECT_EQ((rows + ranks - 1) / ranks * row * ranks, 2 * rows * row);
  EXPECT_EQ(plan_bucket(Tensors{{rows * row, row / 2}}, int(ranks), 1).padding(), 0);
  std::vector<int64_t> units(size_t(ranks), 0);
  std::fill_n(units.begin(), rows, 1);
  EXPECT_EQ(ragged(rows * row, units, row).local_size(0), row);
}

TEST(RuntimeBucketPlan, IsAsGoodAsExhaustiveSearch) {
  std::mt19937 dice(11);
  for (int i = 0; i < 1500; ++i) {
    Tensors tensors(1 + dice() % 4);
    int64_t all = 0;
    for (BucketTensor& tensor : tensors) {
      tensor.block = 1 + dice() % 5;
      tensor.elements = tensor.block * (1 + dice() % 4);
      all += tensor.elements;
    }
    const int ranks = 1 + int(dice() % 4);
    const int64_t align = 1 + dice() % 3;
    const BucketPlan plan = plan_bucket(tensors, ranks, align);
    expect_sound(plan);
    EXPECT_EQ(plan.share % align, 0);
    for (int64_t share = (all + ranks - 1) / ranks; share < plan.share; ++share) {
      ASSERT_FALSE(share % align == 0 && is_feasible(tensors, 0, 0, share, ranks))
          << share << " before " << plan.share;
    }
  }
}

// W5: a 70B model's layer of quantised matrices on 1024 ranks.
TEST(RuntimeBucketPlan, PlansLargeBuckets) {
  Tensors tensors;
  for (int layer = 0; layer < 8; ++layer) {
    for (const int64_t rows : {8192, 1024, 1024, 8192, 28672, 28672, 28672}) {
      tensors.push_back({rows * 8192, 128 * 8192});
    }
    tensors.push_back({8192, 1});
  }
  const auto begin = std::chrono::steady_clock::now();
  const BucketPlan plan = plan_bucket(tensors, 1024, 256);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  std::printf("W5 bucket of %zu tensors, 1024 ranks: %.3f ms, padding %.2f %%\n", tensors.size(),
              took.count(), 100 * double(plan.padding()) / double(plan.share * 1024));
  expect_sound(plan);
}

TEST(RuntimeBucketPlan, RefusesWhatCannotBePlanned) {
  EXPECT_REFUSED(plan_bucket(Tensors{{10, 4}}, 2, 1), "no multiple of its block 4");
  EXPECT_REFUSED(plan_bucket(Tensors{{10, 0}}, 2, 1), "give 1 or more");
  EXPECT_REFUSED(plan_bucket(Tensors{{0, 1}}, 2, 1), "has 0 elements");
  EXPECT_REFUSED(plan_bucket(kExample, 2, 0), "not positive");
  EXPECT_REFUSED(plan_bucket(kExample, 0, 1), "give 1 or more");
  EXPECT_REFUSED(plan_bucket(Tensors{}, 2, 1), "at least one");
  EXPECT_REFUSED(plan_bucket(Tensors{{INT64_MAX / 2, 1}}, 2, 1), "several buckets");
}

// 3.1 (b), (f): ragged dimensions are a prefix.
TEST(RuntimeBucketPlan, BlocksComeFromThePrefixOfDimensions) {
  const std::vector<int64_t> shape{8, 6, 5};
  EXPECT_EQ(ragged_block(shape, std::vector<int>{0}, 1), 30);
  EXPECT_EQ(ragged_block(shape, std::vector<int>{0, 1}, 4), 20);
  EXPECT_REFUSED(ragged_block(shape, std::vector<int>{1}, 1), "not the next of a prefix");
  EXPECT_REFUSED(ragged_block(shape, std::vector<int>{0, 2}, 1), "not the next of a prefix");
  EXPECT_REFUSED(ragged_block(shape, std::vector<int>{}, 1), "at least one");
  EXPECT_REFUSED(ragged_block(shape, std::vector<int>{0}, 0), "not positive");
}

// 3.1, W4: gathered in place, bit for bit; the buffer never moves.
TEST(RuntimeBucketBuffer, GathersTensorsInPlaceBitForBit) {
  for (const int ranks : {1, 2, 3, 4}) {
    const BucketPlan plan = plan_bucket(kExample, ranks, 1);
    run_ranks(ranks, [&](tuttiComm_t comm, int rank) {
      BucketBuffer buffer(comm, plan, tuttiFloat32);
      float* const whole = static_cast<float*>(buffer.tensor(0)) - plan.offsets[0];
      const float* own = static_cast<float*>(buffer.share());
      EXPECT_EQ(own, whole + rank * plan.share);
      for (int64_t i = 0; i < plan.share; ++i)
        whole[rank * plan.share + i] = float(rank * plan.share + i) / 3;
      buffer.all_gather();
      for (size_t t = 0; t < kExample.size(); ++t) {
        const float* tensor = static_cast<float*>(buffer.tensor(int(t)));
        for (int64_t i = 0; i < kExample[t].elements; ++i) {
          EXPECT_EQ(tensor[i], float(plan.offsets[t] + i) / 3);
        }
      }
      for (int64_t i = 0; i < plan.share * ranks; ++i) whole[i] = float(i + rank);
      buffer.reduce_scatter(true);
      for (int64_t i = 0; i < plan.share; ++i) {
        EXPECT_EQ(own[i], float((rank * plan.share + i) * ranks + ranks * (ranks - 1) / 2));
      }
      EXPECT_REFUSED(buffer.tensor(4), "no tensor 4");
    });
  }
  run_ranks(2, [&](tuttiComm_t comm, int) {
    EXPECT_REFUSED(BucketBuffer(comm, plan_bucket(kExample, 3, 1), tuttiFloat32), "for 3 ranks");
  });
}

/// Each block in 8 bits of its largest value; what is left of a block at an end is one, too.
std::vector<float> quantised(const std::vector<float>& values, size_t block) {
  std::vector<float> result;
  for (size_t begin = 0; begin < values.size(); begin += block) {
    const size_t end = std::min(values.size(), begin + block);
    float most = 0;
    for (size_t i = begin; i < end; ++i) most = std::max(most, std::fabs(values[i]));
    const float scale = most == 0 ? 1 : most / 127;
    for (size_t i = begin; i < end; ++i)
      result.push_back(std::nearbyint(values[i] / scale) * scale);
  }
  return result;
}

// 3.1 (e): blocks are whole in every share, so quantising shares is quantising the tensor; cut
// elsewhere it is not.
TEST(RuntimeBucketPlan, QuantisedSharesAreTheQuantisedTensor) {
  std::vector<float> tensor(96);
  std::mt19937 dice(4);
  for (float& x : tensor) x = float(int(dice() % 2001) - 1000) / 7;
  const std::vector<float> whole = quantised(tensor, 8);
  const auto by_shares = [&](const Sharding& shares) {
    std::vector<float> result;
    for (const Shard& shard : shares.shards) {
      const std::vector<float> own(tensor.begin() + shard.begin,
                                   tensor.begin() + shard.begin + shard.length);
      const std::vector<float> q = quantised(own, 8);
      result.insert(result.end(), q.begin(), q.end());
    }
    return result;
  };
  const BucketPlan plan = plan_bucket(Tensors{{5, 1}, {96, 8}}, 4, 1);
  EXPECT_EQ(by_shares(tensor_sharding(plan, 1)), whole);
  EXPECT_NE(by_shares(tensor_sharding(plan_bucket(Tensors{{5, 1}, {96, 1}}, 4, 1), 1)), whole);
}

/// An update that needs the whole matrix: every element depends on all others.
void update(std::vector<double>& matrix) {
  double norm = 0;
  for (const double x : matrix) norm += x * x;
  for (double& x : matrix) x /= std::sqrt(norm) + 1;
}

// 3.1 (b): Muon: each matrix comes to a root, is updated there and goes back.
TEST(RuntimeBucketPlan, MatricesUpdatedAtRootsAreThoseOfOneProcess) {
  const Tensors tensors{{36, 6}, {64, 8}, {16, 4}, {100, 10}};
  const BucketPlan plan = plan_bucket(tensors, 3, 1);
  const std::vector<int> roots = choose_roots(std::vector<int64_t>{216, 512, 64, 1000}, 3);
  EXPECT_EQ(roots, (std::vector<int>{2, 1, 2, 0}));
  run_ranks(3, [&](tuttiComm_t comm, int rank) {
    for (int t = 0; t < 4; ++t) {
      const Sharding shares = tensor_sharding(plan, t);
      const int64_t size = tensors[size_t(t)].elements;
      const Resharding to_root = reshard(shares, single_root(size, 3, roots[size_t(t)]));
      std::vector<double> expected(static_cast<size_t>(size));
      for (size_t i = 0; i < expected.size(); ++i) expected[i] = double(i * 7 % 13) - 5;
      std::vector<double> own, root(rank == roots[size_t(t)] ? size_t(size) : 0);
      for (const Shard& shard : shares.shards) {
        if (shard.rank == rank)
          own.assign(expected.begin() + shard.begin, expected.begin() + shard.begin + shard.length);
      }
      Exchange gather(to_root, Bytes(8)), scatter(reverse(to_root), Bytes(8));
      gather.run(comm, own.data(), root.data());
      if (!root.empty()) update(root);
      scatter.run(comm, root.data(), own.data());
      update(expected);
      for (const Shard& shard : shares.shards) {
        if (shard.rank != rank) continue;
        EXPECT_EQ(own, std::vector<double>(expected.begin() + shard.begin,
                                           expected.begin() + shard.begin + shard.length));
      }
    }
  });
}

// Trainers keep parameters in bfloat16: it is gathered, and summed in fp32 with a rounding a hop.
TEST(RuntimeBucketBuffer, TakesEveryTypeAndTheCallersMemory) {
  const BucketPlan plan = plan_bucket(std::vector<BucketTensor>{{6, 1}, {2, 1}}, 2, 1);
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    BucketBuffer own(comm, plan, tuttiBfloat16);
    std::vector<uint16_t> memory(8);
    BucketBuffer given(comm, plan, tuttiBfloat16, tuttiBlocking(), memory.data());
    EXPECT_EQ(given.tensor(0), memory.data());
    for (BucketBuffer* buffer : {&own, &given}) {
      auto* all = static_cast<uint16_t*>(buffer->tensor(0));
      auto* mine = static_cast<uint16_t*>(buffer->share());
      for (int i = 0; i < 4; ++i) mine[i] = uint16_t(rank == 0 ? 0x3f80 : 0x4000);  // 1, 2
      buffer->all_gather();
      EXPECT_EQ(
          std::vector<uint16_t>(all, all + 8),
          (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f80, 0x3f80, 0x4000, 0x4000, 0x4000, 0x4000}));
      buffer->reduce_scatter(true);
      EXPECT_EQ(mine[3], rank == 0 ? 0x4000 : 0x4080);  // 1 + 1, 2 + 2
    }
    EXPECT_REFUSED(BucketBuffer(comm, plan, tuttiDataType_t(77)), "none of the library's");
  });
  run_ranks(2, [&](tuttiComm_t comm, int rank) {
    EXPECT_NE(refusal([&] { BucketBuffer(comm, plan, rank == 0 ? tuttiFloat32 : tuttiFloat64); },
                      ErrorKind::kRanksDiffer),
              "");
  });
}

/// The least share, one after the other, with every tensor as early as it may begin.
int64_t scanned_share(const std::vector<BucketTensor>& tensors, int ranks, int64_t align) {
  for (int64_t share = align;; share += align) {
    int64_t position = 0;
    bool fits = true;
    for (const BucketTensor& tensor : tensors) {
      const auto is_cut_well = [&](int64_t begin) {
        for (int64_t cut = (begin / share + 1) * share; cut < begin + tensor.elements;
             cut += share) {
          if ((cut - begin) % tensor.block != 0) return false;
        }
        return true;
      };
      while (position < share * ranks && !is_cut_well(position)) ++position;
      position += tensor.elements;
      fits = fits && position <= share * ranks;
    }
    if (fits) return share;
  }
}

TEST(RuntimeBucket, TheShareIsTheLeastOfAll) {
  std::mt19937 dice(11);
  for (int i = 0; i < 3000; ++i) {
    std::vector<BucketTensor> tensors(1 + dice() % 4);
    for (BucketTensor& tensor : tensors) {
      tensor.block = 1 + dice() % (dice() % 3 == 0 ? 40 : 6);
      tensor.elements = tensor.block * (1 + dice() % (dice() % 2 == 0 ? 2 : 9));
    }
    const int ranks = 1 + int(dice() % 5);
    const int64_t align = 1 + dice() % 3;
    ASSERT_EQ(plan_bucket(tensors, ranks, align).share, scanned_share(tensors, ranks, align)) << i;
  }
}

// Muon: matrices stay whole. The time does not grow with their elements.
TEST(RuntimeBucket, WholeMatricesOfAnySizeArePlanned) {
  for (const int64_t whole : {int64_t{1} << 28, int64_t{10'000'000'000}, int64_t{1} << 56}) {
    const std::vector<BucketTensor> three(3, {whole, whole});
    EXPECT_EQ(plan_bucket(three, 2, 1).share, 2 * whole);
    const std::vector<BucketTensor> mixed{{whole, whole}, {4096, 1}, {whole, whole}, {7, 7}};
    EXPECT_EQ(plan_bucket(mixed, 2, 64).share, whole + 2112);  // half of what is small, aligned
  }
}

}  // namespace
}  // namespace tutti::runtime
