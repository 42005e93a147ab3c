// The times of calls by NCCL among the devices of this host, for `tutti tune`: a thread and a rank
// a device, on device memory, in rows.
//
// Threads: it starts its own, and returns when they have ended. Errors: kUnsupported: there is no
// NCCL, or one device only; of NCCL's calls kSystemError.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/select/vendor_times.h"

namespace tutti::cli {

/// `library`: the setting TUTTI_NCCL. Each time is the median of so many rows of calls.
Result<std::vector<select::VendorTimes>> measure_nccl(const std::string& library, int repeats);

}  // namespace tutti::cli
