// The times of calls by a library of the vendor's (NCCL) among the ranks of one host, as `tutti
// tune` has measured them. Nothing is known of what was not measured.
//
// Threads: values. Units: nanoseconds, and bytes of the longer one of a rank's two buffers. Errors:
// none.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::select {

struct VendorCall {
  double bytes = 0;
  double ns = 0;
  bool operator==(const VendorCall&) const = default;
};

/// Of one collective among so many ranks.
struct VendorTimes {
  std::string collective;
  int ranks = 0;
  std::vector<VendorCall> calls;  // by rising bytes; one at least
  bool operator==(const VendorTimes&) const = default;
};

/// Between two measured ones what lies between them; below them the shortest; beyond them by the
/// rate of the longest.
std::optional<double> predict_vendor_ns(std::span<const VendorTimes> known,
                                        std::string_view collective, int ranks, double bytes);

}  // namespace tutti::select
