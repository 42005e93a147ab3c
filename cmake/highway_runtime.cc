// The part of Highway that is not in its headers: which instruction sets this processor has.
//
// libtutti.so may not depend on libhwy.so, and Debian ships no static libhwy. The headers call
// little of it: two functions behind HWY_DYNAMIC_DISPATCH, two for tests, and Abort.
// hwy/aligned_allocator.h and hwy/print.h are not served: code that uses them does not link.
//
// Threads: call from anywhere. The two setters are for tests, before other threads start.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <hwy/base.h>
#include <hwy/targets.h>

namespace hwy {
namespace {

std::atomic<int64_t> disabled_targets{0};  // tidy: allow mutable (Highway's interface is global)
std::atomic<int64_t> mocked_targets{0};    // tidy: allow mutable (Highway's interface is global)

#if HWY_ARCH_X86

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd");
}

bool has_avx512_ice_lake() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("vpclmulqdq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
         __builtin_cpu_supports("vaes") && __builtin_cpu_supports("avx512vpopcntdq") &&
         __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("gfni");
}

// Each set needs the ones before it, as Highway's code for it does.
int64_t detect() {
  int64_t found = 0;
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("ssse3")) return found;
  found |= HWY_SSSE3;
  if (!__builtin_cpu_supports("sse4.1") || !__builtin_cpu_supports("sse4.2")) return found;
  if (!__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("aes")) return found;
  found |= HWY_SSE4;
  if (!has_avx2()) return found;
  found |= HWY_AVX2;
  if (!has_avx512()) return found;
  found |= HWY_AVX3;
  if (has_avx512_ice_lake()) found |= HWY_AVX3_DL;
  return found;
}

#else

int64_t detect() { return 0; }  // elsewhere the set the compiler was asked for is used

#endif

}  // namespace

int64_t SupportedTargets() {
  static const int64_t detected = detect();
  const int64_t mocked = mocked_targets.load(std::memory_order_relaxed);
  const int64_t disabled = disabled_targets.load(std::memory_order_relaxed);
  const int64_t usable = (mocked != 0 ? mocked : detected | HWY_STATIC_TARGET) & ~disabled;
  return usable != 0 ? usable : HWY_STATIC_TARGET;
}

void DisableTargets(int64_t targets) {
  disabled_targets.store(targets, std::memory_order_relaxed);
  GetChosenTarget().DeInit();
}

void SetSupportedTargetsForTest(int64_t targets) {
  mocked_targets.store(targets, std::memory_order_relaxed);
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;  // tidy: allow mutable (Highway's interface is global)
  return chosen;
}

void Abort(const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "%s:%d: ", file, line);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

}  // namespace hwy
