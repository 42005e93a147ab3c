// A hint to the processor's caches.
#pragma once

#include <cstdint>

namespace tutti::exec {

inline constexpr uint64_t kPrefetchedBytes = 64;

/// The line at `place` will be written soon: nobody else should have it then.
/// By name, as compilers for every x86-64 make a prefetch for reading of their builtin; processors
/// without the instruction do nothing.
inline void prefetch_to_write(const void* place) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place, 1);
#endif
}

/// The line at `place` will be read soon. Not by the builtin: a function that does nothing else has
/// no effect for the compiler, which leaves it out.
inline void prefetch_to_read(const void* place) {
#if defined(__x86_64__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(place)));
#elif defined(__aarch64__)
  asm volatile("prfm pldl1keep, %0" : : "Q"(*static_cast<const char*>(place)));
#else
  __builtin_prefetch(place);
#endif
}

}  // namespace tutti::exec
