#include "src/select/vendor_times.h"

#include <algorithm>

namespace tutti::select {

std::optional<double> predict_vendor_ns(std::span<const VendorTimes> known,
                                        std::string_view collective, int ranks, double bytes) {
  const auto found = std::find_if(known.begin(), known.end(), [&](const VendorTimes& one) {
    return one.collective == collective && one.ranks == ranks;
  });
  if (found == known.end()) return std::nullopt;
  const std::vector<VendorCall>& calls = found->calls;
  const auto above = std::find_if(calls.begin(), calls.end(),
                                  [&](const VendorCall& one) { return one.bytes >= bytes; });
  if (above == calls.begin()) return calls.front().ns;
  if (above == calls.end()) return calls.back().ns * bytes / calls.back().bytes;
  const VendorCall& low = *(above - 1);
  const double part = (bytes - low.bytes) / (above->bytes - low.bytes);
  return low.ns + part * (above->ns - low.ns);
}

}  // namespace tutti::select
