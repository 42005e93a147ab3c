// Readers of the settings of RDMA cards, for the table of settings.
//
// Threads: pure, but for the Config that is theirs. Errors: false for a value that is not accepted.
#pragma once

#include <string_view>

#include "src/base/config.h"

namespace tutti {

bool take_no_rdma(std::string_view value, Config& config);
bool take_rdma_devices(std::string_view value, Config& config);
bool take_rdma_gid_index(std::string_view value, Config& config);
bool take_rdma_fabric(std::string_view value, Config& config);
bool take_rdma_timeout(std::string_view value, Config& config);
bool take_rdma_retries(std::string_view value, Config& config);
bool take_rdma_traffic_class(std::string_view value, Config& config);

}  // namespace tutti
