// The kinds of devices that Tutti is built with. A new one is a folder src/engines/<name>/ and a
// row of the table. Threads: constant.
#pragma once

#include <string_view>

#include "src/exec/device.h"

namespace tutti::registry {

/// The one of this process; null if there is none of that name.
exec::Device* find_device(std::string_view name);

}  // namespace tutti::registry
