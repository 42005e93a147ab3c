#include "src/api/scaled_sums.h"

#include <atomic>
#include <cstdint>
#include <limits>

namespace tutti::api {

int ScaledSums::add(const ScaledSum& operation) {
  // Some way off what another library's enumerations hold.
  constexpr uint32_t kFirst = 1 << 16;
  constexpr uint32_t kNumbers = std::numeric_limits<int>::max() - kFirst;
  static std::atomic<uint64_t> made{0};  // tidy: allow mutable (unique in the process)
  while (true) {
    const auto handle = static_cast<int>(kFirst + made.fetch_add(1) % kNumbers);
    if (made_.try_emplace(handle, operation).second) return handle;
  }
}

const ScaledSum* ScaledSums::find(int handle) const {
  const auto found = made_.find(handle);
  return found == made_.end() ? nullptr : &found->second;
}

}  // namespace tutti::api
