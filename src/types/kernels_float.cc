// The kernels of float and double, once per instruction set.

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/types/kernels_float.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target

#include "src/types/fold_inl.h"
#include "src/types/kernels_impl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::types {
namespace HWY_NAMESPACE {

FoldKernel find_float(const FoldKey& key) {
  switch (key.type) {
    case DataType::kFloat32:
      return find_for_type<DataType::kFloat32>(key);
    case DataType::kFloat64:
      return find_for_type<DataType::kFloat64>(key);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::types
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::types {

HWY_EXPORT(find_float);

FoldKernel float_kernel(const FoldKey& key) { return HWY_DYNAMIC_DISPATCH(find_float)(key); }

}  // namespace tutti::types
#endif
