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

}  // namespace tutti::exec
