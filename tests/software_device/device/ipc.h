// Legacy handles: 64 bytes by which another process opens memory (or an event) of this one.
#pragma once

#include <memory>

#include "tests/software_device/device/memory.h"

namespace softdev {

void name_memory(const Physical& physical, char* handle);

/// kErrorInvalidContext: by its own exporter. kErrorMapFailed: the exporter is gone.
CUresult open_named(const char* handle, std::shared_ptr<Physical>* physical);

}  // namespace softdev
