// How much memory a process holds.
#pragma once

#include <string>

namespace tutti::perf {

/// Bytes of this process that lie in memory, shared ones included; 0 where /proc cannot be read.
double resident_bytes();

/// "512 B", "1.50 KB" ... "2.00 GB", as nccl-tests writes them.
std::string byte_text(double bytes);

}  // namespace tutti::perf
