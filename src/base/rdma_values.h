// The rows of RDMA cards in the table of settings.
//
// Threads: pure, but for the Config that is theirs. Errors: a row's parse is false for a value that
// is not accepted.
#pragma once

#include <span>

#include "src/base/config.h"

namespace tutti {

std::span<const Setting> rdma_settings();

}  // namespace tutti
