// How fast the kernels fold on one device, beside a plain copy: by their number of thread blocks,
// of two and four sources in the device's memory. A fold of each type is checked first.
//
//   --divide N     all sizes are so many times smaller, for the software device (default 1)
//   --repeats N    timed launches, of which the median is printed (default 7)
//
// Prints rows of a Markdown table: type, sources, thread blocks, bytes of a source, us, GB/s read
// and written, GB/s of a copy read and written, fold / copy. Exit status: 0 all was right, 1 it was
// not (no kernels, too), 2 the command line.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/drivers/cuda/context.h"
#include "src/drivers/cuda/memory.h"
#include "src/drivers/cuda/stream.h"
#include "src/engines/cuda/fold_kernels.h"
#include "tests/support/options.h"

namespace tutti::device_programs {
namespace {

namespace driver = drivers::cuda;
using engines::cuda::Ctas;
using engines::cuda::FoldKernels;
using engines::cuda::FoldParameters;
using testing_support::now_ns;
using types::DataType;

constexpr uint32_t kMostSources = 4;

template <class Value>
Value must(Result<Value> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", std::string(result.status().message()).c_str());
    std::exit(1);
  }
  return std::move(result).value();
}

void must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::exit(1);
}

class Folds {
 public:
  Folds(const driver::Cuda& cuda, uint64_t bytes, int repeats)
      : cuda_(cuda),
        bytes_(bytes),
        repeats_(repeats),
        stream_(must(driver::CudaStream::create(cuda))),
        memory_(must(driver::DeviceMemory::allocate(cuda, 0, (kMostSources + 1) * bytes))) {
    std::vector<float> ones(bytes / sizeof(float) * (kMostSources + 1), 1.0f);
    must(cuda_.check(cuda_.call.cuMemcpyAsync(memory_.address(),
                                              reinterpret_cast<driver::CUdeviceptr>(ones.data()),
                                              bytes * (kMostSources + 1), stream_.get()),
                     "cuMemcpyAsync"));
    must(stream_.synchronize());
  }

  double copy_us() {
    return median_us([&] {
      return cuda_.check(
          cuda_.call.cuMemcpyAsync(memory_.address(), source(0), bytes_, stream_.get()),
          "cuMemcpyAsync");
    });
  }

  double fold_us(const FoldKernels& kernels, DataType type, uint32_t sources) {
    FoldParameters given;
    given.count = bytes_ / types::size_of(type);
    given.source_count = sources;
    given.target_count = 1;
    given.targets[0] = memory_.address();
    for (uint32_t i = 0; i < sources; ++i) given.sources[i] = source(i);
    return median_us([&] {
      return kernels.launch(type, types::ReduceOp::kSum, given,
                            kernels.blocks_of(type, given.count, false, {0, 0}), stream_.get());
    });
  }

  /// The sum of so many ones.
  bool is_right(uint32_t sources) {
    std::vector<float> got(bytes_ / sizeof(float));
    must(cuda_.check(cuda_.call.cuMemcpyAsync(reinterpret_cast<driver::CUdeviceptr>(got.data()),
                                              memory_.address(), bytes_, stream_.get()),
                     "cuMemcpyAsync"));
    must(stream_.synchronize());
    return std::all_of(got.begin(), got.end(),
                       [&](float one) { return one == static_cast<float>(sources); });
  }

 private:
  driver::CUdeviceptr source(uint32_t index) const {
    return memory_.address() + (index + 1) * bytes_;
  }
  double median_us(const std::function<Status()>& put) {
    constexpr int kWarmUps = 2;
    std::vector<double> times;
    for (int i = 0; i < kWarmUps + repeats_; ++i) {
      const uint64_t start_ns = now_ns();
      must(put());
      must(stream_.synchronize());
      if (i >= kWarmUps) times.push_back(static_cast<double>(now_ns() - start_ns) * 1e-3);
    }
    std::nth_element(times.begin(), times.begin() + repeats_ / 2, times.end());
    return times[static_cast<size_t>(repeats_) / 2];
  }

  const driver::Cuda& cuda_;
  const uint64_t bytes_;
  const int repeats_;
  const driver::CudaStream stream_;
  const driver::DeviceMemory memory_;
};

bool run(uint64_t bytes, int repeats) {
  const driver::Cuda& cuda = must(Result<driver::Cuda>(driver::find()));
  const driver::PrimaryContext context = must(driver::PrimaryContext::retain(cuda, 0));
  const driver::ContextScope scope(cuda, context.get());
  must(scope.status());
  Folds folds(cuda, bytes, repeats);
  const double copy_gbs = 2 * static_cast<double>(bytes) / folds.copy_us() * 1e-3;
  for (const uint32_t blocks : {1u, 4u, 16u, 32u}) {
    const FoldKernels kernels = must(FoldKernels::load(cuda, Ctas{blocks, blocks}));
    for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat8E4M3}) {
      for (const uint32_t sources : {2u, kMostSources}) {
        const double us = folds.fold_us(kernels, type, sources);
        if (type == DataType::kFloat32 && !folds.is_right(sources)) {
          std::printf("a fold of %u sources by %u blocks is wrong\n", sources, blocks);
          return false;
        }
        const double gbs = (sources + 1) * static_cast<double>(bytes) / us * 1e-3;
        std::printf("| %s | %u | %u | %lu | %.1f | %.1f | %.1f | %.2f |\n", types::name_of(type),
                    sources, blocks, static_cast<unsigned long>(bytes), us, gbs, copy_gbs,
                    gbs / copy_gbs);
        std::fflush(stdout);
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace tutti::device_programs

int main(int argc, char** argv) {
  using namespace tutti::testing_support;
  int divide = 1, repeats = 7;
  if (!read_options(argc, argv,
                    {{"--divide", into(divide, 1, 1 << 14)}, {"--repeats", into(repeats, 1)}})) {
    return 2;
  }
  constexpr uint64_t kBytes = 64 << 20;
  return tutti::device_programs::run(kBytes / static_cast<uint64_t>(divide), repeats) ? 0 : 1;
}
