// The kernels' work, run on the host, has the bits of the host's own kernels: for all types,
// operations, orders, counts and alignments. kernels_test.cc compares those with a plain reference.
#include "src/engines/cuda/fold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "src/engines/cuda/fold_kernels.h"
#include "src/types/kernels.h"

namespace tutti::engines::cuda {
namespace {

using types::DataType;
using types::ReduceOp;

using Work = void (*)(const FoldParameters&, uint64_t thread, uint64_t threads);

template <DataType kType, ReduceOp kOp>
void work(const FoldParameters& given, uint64_t thread, uint64_t threads) {
  FoldThread<kType, kOp>(given).run(thread, threads);
}

Work work_of(DataType type, ReduceOp op) {
  static const std::map<std::pair<DataType, ReduceOp>, Work> all = {
#define TUTTI_FOLD_WORK(Type, type, Operation, operation) \
  {{DataType::k##Type, ReduceOp::k##Operation}, work<DataType::k##Type, ReduceOp::k##Operation>},
      TUTTI_FOLD_KERNELS(TUTTI_FOLD_WORK)
#undef TUTTI_FOLD_WORK
  };
  const types::FoldKey row = fold_row(type, op);
  const auto found = all.find({row.type, row.op});
  return found == all.end() ? nullptr : found->second;
}

/// A fold of random bits, of which the host's kernel and the device's are both given copies.
class Fold {
 public:
  struct Shape {
    DataType type = DataType::kFloat32;
    ReduceOp op = ReduceOp::kSum;
    types::FoldOrder order = types::FoldOrder::kList;
    uint32_t sources = 2, targets = 1;
    uint64_t count = 1;
    bool aligned = true;    // all operands to 64 bytes
    bool in_place = false;  // the first source is the first target
  };

  Fold(const Shape& shape, std::mt19937_64& dice) : shape_(shape) {
    const size_t element = types::size_of(shape.type);
    for (uint32_t i = 0; i < shape.sources + shape.targets; ++i) {
      const size_t shift = shape.aligned ? 0 : dice() % 20 * element;
      places_.push_back(i * kRoom + shift);
    }
    if (shape.in_place) places_[0] = places_[shape.targets];
    memory_.resize((shape.sources + shape.targets) * kRoom);
    for (std::byte& byte : memory_) byte = static_cast<std::byte>(dice());
    if (shape.type == DataType::kBool) {
      for (std::byte& byte : memory_) byte &= std::byte{1};
    }
  }

  std::vector<std::byte> by_host(types::FoldCall call) const {
    std::vector<std::byte> memory = aligned_copy();
    std::vector<std::byte*> targets;
    std::vector<const std::byte*> sources;
    for (uint32_t i = 0; i < shape_.targets; ++i) targets.push_back(base(memory) + places_[i]);
    for (uint32_t i = 0; i < shape_.sources; ++i) {
      sources.push_back(base(memory) + places_[shape_.targets + i]);
    }
    call.targets = targets.data();
    call.sources = sources.data();
    call.target_count = shape_.targets;
    call.source_count = shape_.sources;
    call.count = shape_.count;
    types::fold_kernel({.type = shape_.type,
                        .op = shape_.op,
                        .order = shape_.order,
                        .source_count = shape_.sources,
                        .target_count = shape_.targets,
                        .scaled = call.scaled != nullptr || call.divisor != 1})(call);
    return contents(memory);
  }

  /// The host's contribution to a scaled sum: one source, one target.
  std::vector<std::byte> scaled_by_host(const std::byte* factor) const {
    std::vector<std::byte> memory = aligned_copy();
    types::scale(shape_.type, factor, base(memory) + places_[1], base(memory) + places_[0],
                 shape_.count);
    return contents(memory);
  }

  std::vector<std::byte> by_device(FoldParameters given, uint64_t threads) const {
    std::vector<std::byte> memory = aligned_copy();
    given.count = shape_.count;
    given.source_count = shape_.sources;
    given.target_count = shape_.targets;
    given.in_tree = shape_.order == types::FoldOrder::kTree;
    for (uint32_t i = 0; i < shape_.targets; ++i) given.targets[i] = address(memory, i);
    for (uint32_t i = 0; i < shape_.sources; ++i) {
      given.sources[i] = address(memory, shape_.targets + i);
    }
    const Work run = work_of(shape_.type, shape_.op);
    for (uint64_t thread = threads; thread-- > 0;) run(given, thread, threads);
    return contents(memory);
  }

  std::string text() const {
    return std::string(types::name_of(shape_.type)) + " " + types::name_of(shape_.op) +
           (shape_.order == types::FoldOrder::kTree ? " tree " : " list ") +
           std::to_string(shape_.sources) + " to " + std::to_string(shape_.targets) + ", count " +
           std::to_string(shape_.count) + (shape_.aligned ? ", aligned" : "") +
           (shape_.in_place ? ", in place" : "");
  }

 private:
  static constexpr size_t kRoom = 1024;

  static std::byte* base(std::vector<std::byte>& memory) {
    return memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  }
  /// With the operands from base() on.
  std::vector<std::byte> aligned_copy() const {
    std::vector<std::byte> memory(memory_.size() + 64);
    std::copy(memory_.begin(), memory_.end(), base(memory));
    return memory;
  }
  uint64_t address(std::vector<std::byte>& memory, size_t operand) const {
    return reinterpret_cast<uint64_t>(base(memory) + places_[operand]);
  }
  /// With the guards between operands.
  std::vector<std::byte> contents(std::vector<std::byte>& memory) const {
    std::byte* const begin = base(memory);
    return {begin, begin + memory_.size()};
  }

  const Shape shape_;
  std::vector<size_t> places_;  // targets, then sources; from base()
  std::vector<std::byte> memory_;
};

constexpr uint64_t kCounts[] = {1, 2, 7, 15, 16, 31, 64, 100};

/// All that differs in how memory is walked.
template <class Check>
void for_each_shape(DataType type, ReduceOp op, Check check) {
  std::mt19937_64 dice(static_cast<uint64_t>(type) * 16 + static_cast<uint64_t>(op) + 1);
  for (const types::FoldOrder order : {types::FoldOrder::kList, types::FoldOrder::kTree}) {
    for (const uint32_t sources : {2u, 3u, 5u, 8u}) {
      for (const uint64_t count : kCounts) {
        const bool aligned = dice() % 2 == 0, in_place = dice() % 2 == 0;
        const auto targets = static_cast<uint32_t>(1 + dice() % 3);
        check(Fold::Shape{type, op, order, sources, targets, count, aligned, in_place}, dice);
      }
    }
  }
}

template <class Check>
void for_each_fold(Check check) {
  for (int t = 0; t < types::kDataTypes; ++t) {
    for (int o = 0; o < types::kReduceOps; ++o) {
      const auto type = static_cast<DataType>(t);
      const auto op = static_cast<ReduceOp>(o);
      if (types::can_reduce(type, op) && op != ReduceOp::kAvg) check(type, op);
    }
  }
}

TEST(DeviceFold, HasTheBitsOfTheHostsForAllTypesAndOperations) {
  for_each_fold([](DataType type, ReduceOp op) {
    ASSERT_NE(work_of(type, op), nullptr) << types::name_of(type) << " " << types::name_of(op);
    for_each_shape(type, op, [](const Fold::Shape& shape, std::mt19937_64& dice) {
      const Fold fold(shape, dice);
      ASSERT_EQ(fold.by_host({}), fold.by_device({}, 1 + dice() % 9)) << fold.text();
    });
  });
}

TEST(DeviceFold, ScalesAndDividesAsTheHostDoesForAverages) {
  for_each_fold([](DataType type, ReduceOp op) {
    if (op != ReduceOp::kSum || type == DataType::kBool) return;
    for_each_shape(type, op, [&](const Fold::Shape& shape, std::mt19937_64& dice) {
      const Fold fold(shape, dice);
      const uint64_t mask = dice() % (uint64_t{1} << shape.sources);
      types::FoldCall call{};
      FoldParameters given;
      if (types::is_float(type)) {
        call.scaled = &mask;
        call.scale = 1.0 / shape.sources;
        given.scaled[0] = mask;
        given.factor = std::bit_cast<uint64_t>(call.scale);
      } else {
        call.divisor = given.divisor = shape.sources;
      }
      ASSERT_EQ(fold.by_host(call), fold.by_device(given, 3)) << fold.text();
    });
  });
}

// The factor lies where the device can read it, or travels with the launch.
TEST(DeviceFold, BringsToAScaledSumWhatTheHostBrings) {
  for_each_fold([](DataType type, ReduceOp op) {
    if (op != ReduceOp::kSum || type == DataType::kBool) return;
    std::mt19937_64 dice(static_cast<uint64_t>(type) + 1);
    for (const uint64_t count : kCounts) {
      const Fold::Shape shape{type, op, types::FoldOrder::kList, 1, 1, count, count % 2 == 0};
      const Fold fold(shape, dice);
      alignas(8) std::array<std::byte, 8> factor{};
      for (size_t i = 0; i < types::size_of(type); ++i) factor[i] = static_cast<std::byte>(dice());
      FoldParameters carried, found;
      carried.scaled[0] = found.scaled[0] = 1;
      carried.factor_is = FactorIs::kElement;
      std::memcpy(&carried.factor, factor.data(), factor.size());
      found.factor_is = FactorIs::kInMemory;
      found.factor = reinterpret_cast<uint64_t>(factor.data());
      const std::vector<std::byte> expected = fold.scaled_by_host(factor.data());
      ASSERT_EQ(expected, fold.by_device(carried, 2)) << fold.text();
      ASSERT_EQ(expected, fold.by_device(found, 2)) << fold.text();
    }
  });
}

TEST(DeviceFold, ReachesElementsThatAreNotAlignedToTheirSize) {
  std::vector<std::byte> memory(256);
  const auto at = [&](size_t offset) { return reinterpret_cast<uint64_t>(memory.data()) + offset; };
  for (size_t i = 0; i < 5; ++i) {
    const float one = 1.5f * static_cast<float>(i), other = 100;
    std::memcpy(memory.data() + 1 + 4 * i, &one, 4);
    std::memcpy(memory.data() + 66 + 4 * i, &other, 4);
  }
  FoldParameters given;
  given.count = 5;
  given.source_count = 2;
  given.target_count = 1;
  given.sources[0] = at(1), given.sources[1] = at(66), given.targets[0] = at(131);
  work<DataType::kFloat32, ReduceOp::kSum>(given, 0, 1);
  for (size_t i = 0; i < 5; ++i) {
    float sum = 0;
    std::memcpy(&sum, memory.data() + 131 + 4 * i, 4);
    EXPECT_EQ(sum, 100 + 1.5f * static_cast<float>(i));
  }
}

TEST(DeviceFold, HasBlocksForTheElementsWithinWhatIsAllowed) {
  const Ctas ctas{2, 8};
  EXPECT_EQ(FoldKernels::blocks_for(1, 4, ctas), 2u);
  EXPECT_EQ(FoldKernels::blocks_for(kFoldThreads * 4 * 5, 4, ctas), 5u);
  EXPECT_EQ(FoldKernels::blocks_for(kFoldThreads * 4 * 5 + 1, 4, ctas), 6u);
  EXPECT_EQ(FoldKernels::blocks_for(uint64_t{1} << 40, 4, ctas), 8u);
  EXPECT_EQ(FoldKernels::blocks_for(1 << 20, 1, {16, 4}), 16u) << "the least wins";
  EXPECT_EQ(FoldKernels::most_of({1, 0}, false), 16u);
  EXPECT_EQ(FoldKernels::most_of({1, 0}, true), 32u) << "sources on other devices";
  EXPECT_EQ(FoldKernels::most_of({1, 8}, true), 8u) << "somebody has said so";
}

}  // namespace
}  // namespace tutti::engines::cuda
