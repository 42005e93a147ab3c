// The instruction sets that codecs are compiled for: those of the folds (src/types). Included
// before any header of Highway.
//
// Threads: constants only.
#pragma once

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
