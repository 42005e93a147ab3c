#include "src/exec/vendor_library.h"

namespace tutti::exec {

std::string text_of(const VendorMemory& memory) {
  const std::string bytes = std::to_string(memory.bytes) + " bytes of device memory";
  switch (memory.counted_by) {
    case VendorMemory::CountedBy::kNobody:
      return "device memory that nobody has counted";
    case VendorMemory::CountedBy::kDevice:
      return "about " + bytes +
             " (by which the free memory of the device shrank meanwhile), and keeps them while the "
             "communicator is suspended";
    case VendorMemory::CountedBy::kLibrary:
      break;
  }
  if (memory.given_back == 0) return bytes + ", and keeps them while the communicator is suspended";
  return bytes + ", of which it gives " + std::to_string(memory.given_back) +
         " back while the communicator is suspended";
}

}  // namespace tutti::exec
