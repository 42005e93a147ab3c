// The kernels against the plain fold of reference_fold.h, bit for bit, with every instruction set
// this processor has.
#include "src/types/kernels.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>
#include <span>
#include <string>
#include <vector>

#include "src/types/instruction_sets.h"
#include "src/types/reference_fold.h"

namespace tutti::types {
namespace {

using reference::Raw;

constexpr ReduceOp kOps[] = {ReduceOp::kSum,    ReduceOp::kProd,  ReduceOp::kMax,   ReduceOp::kMin,
                             ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor};
constexpr FoldOrder kOrders[] = {FoldOrder::kList, FoldOrder::kTree};
constexpr std::byte kGuard{0xA5};
constexpr size_t kGuardBytes = 128;

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int i = 0; i < kDataTypes; ++i) types.push_back(static_cast<DataType>(i));
  return types;
}

// An array with guard bytes on both sides, `misaligned` elements after an aligned address.
class Array {
 public:
  Array(DataType type, size_t count, size_t misaligned)
      : type_(type),
        count_(count),
        memory_(2 * kGuardBytes + 64 + (misaligned + count) * size_of(type), kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    begin_ = kGuardBytes + (64 - address % 64) % 64 + misaligned * size_of(type);
  }

  std::byte* data() { return memory_.data() + begin_; }
  const std::byte* data() const { return memory_.data() + begin_; }
  Raw at(size_t i) const { return reference::load(type_, data() + i * size_of(type_)); }
  void set(size_t i, Raw raw) { std::memcpy(data() + i * size_of(type_), &raw, size_of(type_)); }

  bool guards_hold() const {
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const size_t end = begin_ + count_ * size_of(type_);
    return std::all_of(memory_.begin(), memory_.begin() + begin_, is_guard) &&
           std::all_of(memory_.begin() + end, memory_.end(), is_guard);
  }

 private:
  DataType type_;
  size_t count_;
  std::vector<std::byte> memory_;
  size_t begin_;
};

// Half of the numbers are near one another, so that they round; the rest are any bits at all, with
// infinities, NaNs and subnormals of every kind. Narrow floats are any bits: they are so few that
// all come.
Raw random_element(DataType type, std::mt19937_64& random) {
  const Raw bits = random();
  if (type == DataType::kBool) return bits % 4 == 0;
  const Raw mask = size_of(type) == 8 ? ~Raw{0} : (Raw{1} << 8 * size_of(type)) - 1;
  const double near = std::ldexp(double(int64_t(bits)), -62);
  switch (bits % 8) {
    case 0:
      return type == DataType::kFloat64 ? 0x7FF0000000000000 : 0x7F800000 & mask;
    case 1:
      return random() & mask;
    case 2:
      return random() & (mask >> 9);  // subnormals, zero after 32 bits
    case 3:
      return (mask >> 1) + 1;  // -0, or the least integer
    default:
      if (type == DataType::kFloat32) return reference::raw_of(static_cast<float>(near));
      if (type == DataType::kFloat64) return reference::raw_of(near);
      return random() & mask;
  }
}

struct Case {
  DataType type;
  ReduceOp op = ReduceOp::kSum;
  FoldOrder order = FoldOrder::kList;
  StoreHint store = StoreHint::kCached;
  uint32_t sources = 2;
  uint32_t targets = 1;
  size_t count = 0;
  bool in_place = false;
  std::vector<uint64_t> scaled = {};
  double scale = 1;
  int64_t divisor = 1;

  std::string name() const {
    return std::string(name_of(type)) + " " + name_of(op) +
           (order == FoldOrder::kTree ? " tree" : " list") + " of " + std::to_string(sources) +
           " into " + std::to_string(targets) + ", count " + std::to_string(count) +
           (in_place ? ", in place" : "") + (store == StoreHint::kStreaming ? ", streaming" : "");
  }
};

std::vector<Array> random_sources(const Case& c, std::mt19937_64& random) {
  std::vector<Array> sources;
  for (uint32_t s = 0; s < c.sources; ++s) {
    sources.emplace_back(c.type, c.count, random() % 4 == 0 ? random() % 60 : random() % 2);
    for (size_t i = 0; i < c.count; ++i) sources[s].set(i, random_element(c.type, random));
  }
  return sources;
}

std::vector<Raw> expected(const Case& c, const std::vector<Array>& sources) {
  const reference::Expression expression{
      c.type, c.op, c.order, c.scaled.empty() ? nullptr : c.scaled.data(), c.scale, c.divisor};
  std::vector<Raw> result(c.count);
  std::vector<Raw> elements(c.sources);
  for (size_t i = 0; i < c.count; ++i) {
    for (uint32_t s = 0; s < c.sources; ++s) elements[s] = sources[s].at(i);
    result[i] = reference::fold(expression, elements);
  }
  return result;
}

// Runs the case on a copy of `sources`, and checks every byte that it could have written.
void check_run(const Case& c, const std::vector<Array>& sources, std::span<const Raw> expected,
               std::mt19937_64& random) {
  std::vector<Array> work = sources;
  std::vector<Array> fresh;
  for (uint32_t t = 0; t < c.targets; ++t) fresh.emplace_back(c.type, c.count, random() % 2);
  std::vector<const std::byte*> source_pointers;
  std::vector<Array*> targets;
  std::vector<std::byte*> target_pointers;
  for (const Array& array : work) source_pointers.push_back(array.data());
  for (uint32_t t = 0; t < c.targets; ++t) {
    targets.push_back(c.in_place && t < c.sources ? &work[c.sources - 1 - t] : &fresh[t]);
    target_pointers.push_back(targets[t]->data());
  }

  const FoldKernel kernel = fold_kernel(
      {c.type, c.op, c.order, c.store, c.sources, c.targets, !c.scaled.empty() || c.divisor != 1});
  kernel({target_pointers.data(), source_pointers.data(), c.targets, c.sources, c.count,
          c.scaled.empty() ? nullptr : c.scaled.data(), c.scale, c.divisor});

  for (const Array* target : targets) {
    ASSERT_TRUE(target->guards_hold()) << c.name();
    for (size_t i = 0; i < c.count; ++i) {
      ASSERT_EQ(target->at(i), expected[i]) << c.name() << ", element " << i;
    }
  }
  for (uint32_t s = 0; s < c.sources; ++s) {
    const bool overwritten = std::find(targets.begin(), targets.end(), &work[s]) != targets.end();
    if (overwritten) continue;
    ASSERT_EQ(std::memcmp(work[s].data(), sources[s].data(), c.count * size_of(c.type)), 0)
        << c.name() << " changed source " << s;
  }
}

void check(const Case& c, std::mt19937_64& random) {
  const std::vector<Array> sources = random_sources(c, random);
  // One source is copied, so even a NaN keeps its bits.
  std::vector<Raw> values(c.count);
  const bool copied = c.sources == 1 && c.scaled.empty() && c.divisor == 1;
  for (size_t i = 0; copied && i < c.count; ++i) values[i] = sources[0].at(i);
  if (!copied) values = expected(c, sources);
  for_each_instruction_set([&] { check_run(c, sources, values, random); });
}

// ---- tests --------------------------------------------------------------------------------------

class FoldKernels : public testing::TestWithParam<DataType> {};

INSTANTIATE_TEST_SUITE_P(Types, FoldKernels, testing::ValuesIn(all_types()),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(FoldKernels, FoldsAsTheReferenceDoes) {
  std::mt19937_64 random(1);
  for (const ReduceOp op : kOps) {
    if (!can_reduce(GetParam(), op)) continue;
    for (const FoldOrder order : kOrders) {
      for (const uint32_t sources : {1, 2, 3, 4, 5, 7, 8, 9, 16, 33}) {
        for (const size_t count : {0, 1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
          if (count * sources > 20000 && random() % 8 != 0) continue;
          constexpr StoreHint kHints[] = {StoreHint::kStreaming, StoreHint::kCached,
                                          StoreHint::kVectors};
          const StoreHint store = kHints[random() % 3];
          const uint32_t targets = random() % 2 == 0 ? 1 : 1 + random() % 3;
          check({.type = GetParam(),
                 .op = op,
                 .order = order,
                 .store = store,
                 .sources = sources,
                 .targets = targets,
                 .count = count,
                 .in_place = random() % 3 == 0},
                random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(FoldKernels, StreamsLongArrays) {
  std::mt19937_64 random(2);
  for (const uint32_t sources : {1, 2, 4}) {
    for (const uint32_t targets : {1, 3}) {
      for (const bool in_place : {false, true}) {
        check({.type = GetParam(),
               .store = StoreHint::kStreaming,
               .sources = sources,
               .targets = targets,
               .count = 5003,
               .in_place = in_place},
              random);
      }
    }
  }
}

TEST_P(FoldKernels, ScalesTheMarkedSources) {
  if (!can_reduce(GetParam(), ReduceOp::kScaledSum)) return;
  std::mt19937_64 random(3);
  for (const FoldOrder order : kOrders) {
    for (const uint32_t sources : {1, 2, 3, 8, 70}) {
      for (const double scale : {1.0 / 3, -2.0, 3.0, 0.0}) {
        check({.type = GetParam(),
               .order = order,
               .sources = sources,
               .targets = 1 + sources % 2,
               .count = 77,
               .scaled = {random(), random()},
               .scale = scale},
              random);
      }
    }
  }
}

TEST_P(FoldKernels, DividesIntegersTowardZero) {
  if (is_float(GetParam()) || !can_reduce(GetParam(), ReduceOp::kAvg)) return;
  std::mt19937_64 random(4);
  for (const int64_t divisor : {2, 3, 7, 100}) {
    for (const size_t count : {1, 5, 200}) {
      check({.type = GetParam(),
             .op = ReduceOp::kAvg,
             .sources = 3,
             .count = count,
             .divisor = divisor},
            random);
    }
  }
}

TEST_P(FoldKernels, GivesTheSameBitsEverywhere) {
  const DataType type = GetParam();
  std::mt19937_64 random(5);
  for (const ReduceOp op : kOps) {
    if (!can_reduce(type, op)) continue;
    for (int round = 0; round < 200; ++round) {
      const Raw raws[] = {random_element(type, random), random_element(type, random)};
      constexpr size_t kCount = 131;
      Array a(type, kCount, 0), b(type, kCount, 1), target(type, kCount, 1);
      for (size_t i = 0; i < kCount; ++i) a.set(i, raws[0]), b.set(i, raws[1]);
      const FoldKernel kernel = fold_kernel({.type = type, .op = op});
      std::byte* const out = target.data();
      for (const auto& [first, second] : {std::pair(&a, &b), std::pair(&b, &a)}) {
        const std::byte* const in[] = {first->data(), second->data()};
        kernel({&out, in, 1, 2, kCount});
        const Raw expected = reference::fold({type, op, FoldOrder::kList}, {raws[0], raws[1]});
        for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(target.at(i), expected) << "element " << i;
      }
    }
  }
}

// Arrays that end, or begin, where no memory is mapped.
TEST_P(FoldKernels, TouchesNothingOutside) {
  const DataType type = GetParam();
  const size_t page = 4096;
  const auto mapped = [&] {
    void* const memory = mmap(nullptr, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(mprotect(static_cast<std::byte*>(memory) + page, page, PROT_READ | PROT_WRITE), 0);
    return static_cast<std::byte*>(memory);
  };
  std::byte* const memory[] = {mapped(), mapped(), mapped(), mapped(), mapped(), mapped()};
  for (const uint32_t sources : {2, 4, 5}) {
    for (size_t count = 1; count <= 150; ++count) {
      for (const bool at_end : {false, true}) {
        const size_t begin = at_end ? 2 * page - count * size_of(type) : page;
        const std::byte* in[5];
        for (uint32_t s = 0; s < sources; ++s) in[s] = memory[s] + begin;
        std::byte* const out = memory[5] + begin;
        for_each_instruction_set([&] {
          fold_kernel({.type = type, .source_count = sources})({&out, in, 1, sources, count});
        });
      }
    }
  }
  for (std::byte* const area : memory) munmap(area, 3 * page);
}

// 1 + 2^-12 squared has a last bit that only a fused multiplication keeps.
TEST(ScaledFold, RoundsTheProductBeforeTheSum) {
  const float scale = 1.0f + 0x1p-12f;
  const std::vector<float> a(64, scale), b(64, -(1.0f + 0x1p-11f));
  std::vector<float> sum(64, 99);
  const std::byte* const in[] = {reinterpret_cast<const std::byte*>(a.data()),
                                 reinterpret_cast<const std::byte*>(b.data())};
  std::byte* const out = reinterpret_cast<std::byte*>(sum.data());
  const uint64_t scaled = 1;
  for_each_instruction_set([&] {
    fold_kernel({.scaled = true})({&out, in, 1, 2, sum.size(), &scaled, scale});
    for (const float value : sum) ASSERT_EQ(value, 0.0f);
  });
}

TEST(Copies, OfEveryLengthAndAlignment) {
  std::mt19937_64 random(6);
  for (const auto copy : {copy_streaming, copy_vectors}) {
    for_each_instruction_set([&] {
      for (size_t i = 0; i < 64 * 5; ++i) {  // each remainder of a turn, at each alignment in turn
        const size_t bytes = i < 3 ? i : 4096 + i;
        Array source(DataType::kUint8, bytes, random() % 64);
        for (size_t at = 0; at < bytes; ++at) source.set(at, random() & 0xFF);
        Array target(DataType::kUint8, bytes, i % 64);
        copy(target.data(), source.data(), bytes);
        EXPECT_EQ(std::memcmp(target.data(), source.data(), bytes), 0) << bytes;
        EXPECT_TRUE(target.guards_hold()) << bytes;
        copy(target.data(), target.data(), bytes);
        EXPECT_EQ(std::memcmp(target.data(), source.data(), bytes), 0) << bytes << ", in place";
      }
    });
  }
}

}  // namespace
}  // namespace tutti::types
