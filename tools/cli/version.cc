#include "tools/cli/version.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "src/drivers/cuda/driver.h"
#include "src/drivers/nccl/library.h"
#include "src/registry/settings.h"
#include "tools/cli/arguments.h"
#include "tutti/tutti.h"

namespace tutti::cli {
namespace {

/// A library that Tutti loads at run time (launchers'), or that a transport would be built on: what
/// this machine has is worth knowing in a report.
struct OptionalLibrary {
  const char* what;
  const char* file;
};

constexpr OptionalLibrary kOptionalLibraries[] = {
    {"NVML", "libnvidia-ml.so.1"}, {"verbs", "libibverbs.so.1"}, {"UCX", "libucp.so.0"},
    {"hwloc", "libhwloc.so.15"},   {"PMIx", "libpmix.so.2"},     {"PMI2", "libpmi2.so.0"},
};

// They stay loaded: what a library took when it was loaded counts as leaked once its code is gone.
void print_libraries() {
  for (const OptionalLibrary& library : kOptionalLibraries) {
    const bool is_found = dlopen(library.file, RTLD_LAZY | RTLD_LOCAL) != nullptr;
    std::printf("  %-18s %s (%s)\n", library.what, is_found ? "found" : "not found", library.file);
  }
}

std::string processor_features() {
#if defined(__x86_64__)
  std::string features;
  const auto add = [&features](bool present, const char* name) {
    if (present) features += std::string(features.empty() ? "" : " ") + name;
  };
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  return features.empty() ? "x86-64 without avx2" : features;
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "unknown";
#endif
}

/// Whether the kernel lets a process read memory through process_vm_readv at all: its own, here.
/// Between processes ptrace's rules decide as well.
bool single_copy_works() {
  char source = 1;
  char target = 0;
  const iovec local{&target, 1};
  const iovec remote{&source, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

}  // namespace

int version_main(int argc, char** argv) {
  if (const auto status = end_with_usage(argc, argv, "usage: tutti version\n")) return *status;
  int version = 0;
  if (tuttiGetVersion(&version) != tuttiSuccess) {
    std::fprintf(stderr, "tutti version: %s\n", tuttiGetLastError(nullptr));
    return 1;
  }
  std::printf("tutti %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
  std::printf("  %-18s %u, %s\n", "processors", std::thread::hardware_concurrency(),
              processor_features().c_str());
  std::printf("  %-18s %s (process_vm_readv)\n", "single copy",
              single_copy_works() ? "works" : "refused");
  std::printf("  %-18s %s\n", "CUDA driver", drivers::cuda::describe().c_str());
  const Result<Config> config = registry::read_settings();
  const std::string file = config.ok() ? config.value().nccl_library : "";
  std::printf("  %-18s %s\n", "NCCL", drivers::nccl::describe(file).c_str());
  print_libraries();
  return 0;
}

}  // namespace tutti::cli
