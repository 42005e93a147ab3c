#include "src/base/alias_mapping.h"

#include <sys/mman.h>

#include <string>

#include "src/base/io.h"

namespace tutti {

// An old size of 0 leaves the first mapping as it is. The kernel refuses that for private memory.
Result<AliasMapping> AliasMapping::create(void* data, size_t bytes) {
  void* const again = mremap(data, 0, bytes, MREMAP_MAYMOVE);
  if (again == MAP_FAILED) {
    return errno_status("mremap to a second mapping of " + std::to_string(bytes) + " bytes");
  }
  return AliasMapping(again, bytes);
}

AliasMapping::~AliasMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace tutti
