// Ranks, items and offsets are signed here, as they are subtracted; vectors are indexed by size_t.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::runtime {

inline size_t at(int64_t index) { return static_cast<size_t>(index); }

}  // namespace tutti::runtime
