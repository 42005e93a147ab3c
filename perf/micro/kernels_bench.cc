// How fast the fold kernels are: tiny calls in nanoseconds, long ones against memcpy in bytes moved
// (every source read once, every target written once).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/types/kernels.h"

namespace tutti::types {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// The arrays of one call, each on pages of its own, at different offsets from a page's beginning.
class Arrays {
 public:
  Arrays(size_t count, size_t bytes) {
    const size_t stride = (bytes + 4095) / 4096 * 4096 + 4096;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, stride * count)));
    std::memset(memory_.get(), 0x11, stride * count);
    for (size_t i = 0; i < count; ++i) {
      arrays_.push_back(memory_.get() + stride * i + 256 * (i % 8));
    }
  }

  std::byte* const* data() const { return arrays_.data(); }

 private:
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<std::byte*> arrays_;
};

void bench_fold(benchmark::State& state, FoldKey key) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Arrays sources(key.source_count, bytes);
  const Arrays targets(key.target_count, bytes);
  const FoldKernel kernel = fold_kernel(key);
  const uint64_t scaled[kMaxSources / 64] = {~uint64_t{0}};
  const FoldCall call = {.targets = targets.data(),
                         .sources = sources.data(),
                         .target_count = key.target_count,
                         .source_count = key.source_count,
                         .count = bytes / size_of(key.type),
                         .scaled = key.scaled ? scaled : nullptr,
                         .scale = 0.5};
  for (auto _ : state) {
    kernel(call);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes * (key.source_count + key.target_count));
}

void bench_memcpy(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Arrays arrays(2, bytes);
  for (auto _ : state) {
    std::memcpy(arrays.data()[0], arrays.data()[1], bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes * 2);
}

void add(const FoldKey& key, std::vector<int64_t> sizes) {
  std::string name = std::string(name_of(key.type)) + "/" + name_of(key.op);
  name += key.order == FoldOrder::kTree ? "/tree" : "/list";
  name += "/" + std::to_string(key.source_count) + "to" + std::to_string(key.target_count);
  if (key.store == StoreHint::kStreaming) name += "/streaming";
  if (key.scaled) name += "/scaled";
  auto* const bench = benchmark::RegisterBenchmark(name.c_str(), bench_fold, key);
  for (const int64_t bytes : sizes) bench->Arg(bytes);
}

// Runs before main, as the macros of the library do.
const bool registered = [] {
  const std::vector<int64_t> sizes = {8, 60, 256, 4096, 256 << 10, 64 << 20};
  const std::vector<int64_t> short_sizes = {8, 4096, 16 << 20};
  auto* const copy = benchmark::RegisterBenchmark("memcpy", bench_memcpy);
  for (const int64_t bytes : sizes) copy->Arg(bytes);
  add({.source_count = 1, .target_count = 2}, short_sizes);
  for (const uint32_t sources : {2, 3, 4, 8}) add({.source_count = sources}, sizes);
  add({.store = StoreHint::kStreaming}, {256 << 10, 64 << 20});
  for (const uint32_t sources : {5, 16, 33}) {
    add({.source_count = sources}, short_sizes);
    add({.order = FoldOrder::kTree, .source_count = sources}, short_sizes);
  }
  add({.source_count = 4, .scaled = true}, short_sizes);
  add({.source_count = 4, .target_count = 4}, short_sizes);
  for (int type = 0; type < kDataTypes; ++type) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kBitXor}) {
      if (!can_reduce(static_cast<DataType>(type), op)) continue;
      add({.type = static_cast<DataType>(type), .op = op}, short_sizes);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tutti::types
