// Valid inputs made slightly wrong, the same for the same seed on every machine.
//
// Threads: a value each. Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::fuzz {

/// Input `number` of `seed`: some corpus entry after a few changes, at most `max_bytes` long. Every
/// number stands alone, so that one input can be made again without those before it.
std::string mutate(const std::vector<std::string>& corpus, uint64_t seed, uint64_t number,
                   size_t max_bytes);

}  // namespace tutti::fuzz
