// The kernels of the 16-bit and 8-bit floats, once per instruction set.

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "src/types/kernels_packed.cc"
#include <hwy/foreach_target.h>  // includes this file again, once per target

#include "src/types/fold_inl.h"
#include "src/types/kernels_impl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::types {
namespace HWY_NAMESPACE {

FoldKernel find_packed(const FoldKey& key) {
  switch (key.type) {
    case DataType::kFloat16:
      return find_for_type<DataType::kFloat16>(key);
    case DataType::kBfloat16:
      return find_for_type<DataType::kBfloat16>(key);
    case DataType::kFloat8E4M3:
      return find_for_type<DataType::kFloat8E4M3>(key);
    case DataType::kFloat8E5M2:
      return find_for_type<DataType::kFloat8E5M2>(key);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tutti::types
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti::types {

HWY_EXPORT(find_packed);

FoldKernel packed_kernel(const FoldKey& key) { return HWY_DYNAMIC_DISPATCH(find_packed)(key); }

}  // namespace tutti::types
#endif
