// Which kernel folds what; copies, which need no arithmetic; what a single element is worth.
#include "src/types/kernels.h"

#include <cstring>

#include "src/types/element.h"
#include "src/types/kernels_impl.h"
#include "src/types/narrow_float.h"

namespace tutti::types {
namespace {

// One source, whose bits are kept as they are: a NaN too.
template <size_t kSize, StoreHint kStore>
void copy_elements(const FoldCall& call) {
  const size_t bytes = call.count * kSize;
  if (bytes == 0) return;
  if (call.target_count != 1) {
    const FoldKernel kernel = int_kernel({.type = DataType::kUint8,
                                          .op = ReduceOp::kMax,
                                          .store = kStore,
                                          .source_count = 1,
                                          .target_count = call.target_count});
    FoldCall of_bytes = call;
    of_bytes.count = bytes;
    kernel(of_bytes);
  } else if (call.targets[0] == call.sources[0]) {
    // In place: nothing moves.
  } else if constexpr (kStore == StoreHint::kStreaming) {
    copy_streaming(call.targets[0], call.sources[0], bytes);
  } else if constexpr (kStore == StoreHint::kVectors) {
    copy_vectors(call.targets[0], call.sources[0], bytes);
  } else {
    std::memcpy(call.targets[0], call.sources[0], bytes);
  }
}

template <StoreHint kStore>
FoldKernel copy_kernel_of(size_t size) {
  switch (size) {
    case 1:
      return copy_elements<1, kStore>;
    case 2:
      return copy_elements<2, kStore>;
    case 4:
      return copy_elements<4, kStore>;
    default:
      return copy_elements<8, kStore>;
  }
}

FoldKernel copy_kernel(StoreHint store, size_t size) {
  switch (store) {
    case StoreHint::kStreaming:
      return copy_kernel_of<StoreHint::kStreaming>(size);
    case StoreHint::kVectors:
      return copy_kernel_of<StoreHint::kVectors>(size);
    default:
      return copy_kernel_of<StoreHint::kCached>(size);
  }
}

template <class T>
T loaded(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  return value;
}

}  // namespace

FoldKernel fold_kernel(const FoldKey& key) {
  if (key.source_count == 1 && !key.scaled) return copy_kernel(key.store, size_of(key.type));
  if (key.type == DataType::kBool) return int_kernel(of_numbers(key));
  if (!is_float(key.type)) return int_kernel(key);
  return size_of(key.type) >= 4 ? float_kernel(key) : packed_kernel(key);
}

float to_float(DataType type, const std::byte* element) {
  switch (type) {
    case DataType::kInt8:
      return loaded<int8_t>(element);
    case DataType::kUint8:
    case DataType::kBool:
      return loaded<uint8_t>(element);
    case DataType::kInt16:
      return loaded<int16_t>(element);
    case DataType::kUint16:
      return loaded<uint16_t>(element);
    case DataType::kInt32:
      return static_cast<float>(loaded<int32_t>(element));
    case DataType::kUint32:
      return static_cast<float>(loaded<uint32_t>(element));
    case DataType::kInt64:
      return static_cast<float>(loaded<int64_t>(element));
    case DataType::kUint64:
      return static_cast<float>(loaded<uint64_t>(element));
    case DataType::kFloat16:
      return decoded(kHalfFormat, loaded<uint16_t>(element));
    case DataType::kFloat32:
      return loaded<float>(element);
    case DataType::kFloat64:
      return static_cast<float>(loaded<double>(element));
    case DataType::kBfloat16:
      return decoded_bfloat16(loaded<uint16_t>(element));
    case DataType::kFloat8E4M3:
      return decoded(kE4M3Format, loaded<uint8_t>(element));
    case DataType::kFloat8E5M2:
      return decoded(kE5M2Format, loaded<uint8_t>(element));
  }
  return 0;
}

}  // namespace tutti::types
