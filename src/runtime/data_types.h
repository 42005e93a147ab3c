// The sizes of the library's types.
#pragma once

#include <cstdint>

#include "src/runtime/refuse.h"

namespace tutti::runtime {

inline int64_t bytes_of(tuttiDataType_t type) {
  switch (type) {
    case tuttiInt8:
    case tuttiUint8:
    case tuttiBool:
    case tuttiFloat8e4m3:
    case tuttiFloat8e5m2:
      return 1;
    case tuttiInt16:
    case tuttiUint16:
    case tuttiFloat16:
    case tuttiBfloat16:
      return 2;
    case tuttiInt32:
    case tuttiUint32:
    case tuttiFloat32:
      return 4;
    case tuttiInt64:
    case tuttiUint64:
    case tuttiFloat64:
      return 8;
  }
  require(false, "type ", static_cast<int>(type), " is none of the library's; see tuttiDataType_t");
  return 0;
}

}  // namespace tutti::runtime
