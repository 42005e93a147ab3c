// The kernels of the integer types, once per instruction set.

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/types/kernels_int.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target

#include "src/types/fold_inl.h"
#include "src/types/kernels_impl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::types {
namespace HWY_NAMESPACE {

FoldKernel find_int(const FoldKey& key) {
  switch (key.type) {
    case DataType::kInt8:
      return find_for_type<DataType::kInt8>(key);
    case DataType::kUint8:
      return find_for_type<DataType::kUint8>(key);
    case DataType::kInt16:
      return find_for_type<DataType::kInt16>(key);
    case DataType::kUint16:
      return find_for_type<DataType::kUint16>(key);
    case DataType::kInt32:
      return find_for_type<DataType::kInt32>(key);
    case DataType::kUint32:
      return find_for_type<DataType::kUint32>(key);
    case DataType::kInt64:
      return find_for_type<DataType::kInt64>(key);
    case DataType::kUint64:
      return find_for_type<DataType::kUint64>(key);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::types
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::types {

HWY_EXPORT(find_int);

FoldKernel int_kernel(const FoldKey& key) { return HWY_DYNAMIC_DISPATCH(find_int)(key); }

}  // namespace tutti::types
#endif
