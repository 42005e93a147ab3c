// The settings of the process by name: Tutti's own or NCCL's.
//
// Threads: any. Lifetime: texts of a Setting are valid until the same thread asks again.
#pragma once

#include <string_view>

#include "tutti/tutti.h"

namespace tutti::nccl {

using Setting = tuttiSetting_t;

/// False where no setting has this name.
bool find_setting(std::string_view name, Setting& setting);

}  // namespace tutti::nccl
