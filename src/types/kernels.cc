// Which kernel folds what; copies, which need no arithmetic; what a single element is worth.
#include "src/types/kernels.h"

#include <bit>
#include <cstring>

#include "src/types/element.h"
#include "src/types/kernels_impl.h"

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

// One of two is true: the greater one; both are: the lesser one. All others are bitwise.
FoldKey as_bytes(FoldKey of_bools) {
  FoldKey key = of_bools;
  key.type = DataType::kUint8;
  if (key.op == ReduceOp::kSum) key.op = ReduceOp::kMax;
  if (key.op == ReduceOp::kProd) key.op = ReduceOp::kMin;
  return key;
}

// The same steps as decode in vector_inl.h, where they are explained.

float decode(const FloatFormat& format, uint32_t code) {
  const uint32_t rebias = uint32_t(127 - format.bias()) << 23;
  const uint32_t exponent_mask = ((1u << format.exponent_bits) - 1) << 23;
  const uint32_t sign = (code & format.sign_mask()) << format.sign_shift();
  const uint32_t magnitude = (code & format.magnitude_mask()) << format.dropped_bits();
  const uint32_t exponent = magnitude & exponent_mask;
  uint32_t bits = magnitude + rebias;
  if (exponent == 0) {
    const uint32_t one_up = rebias + (1u << 23);
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + one_up) -
                                   std::bit_cast<float>(one_up));
  } else if (format.ieee && exponent == exponent_mask) {
    bits = magnitude | 0x7F800000u;
  } else if (!format.ieee && (code & format.magnitude_mask()) == format.nan_code) {
    bits = 0x7FC00000u;
  }
  return std::bit_cast<float>(bits | sign);
}

float decode_bfloat16(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }

template <class T>
T loaded(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof(value));
  return value;
}

}  // namespace

FoldKernel fold_kernel(const FoldKey& key) {
  if (key.source_count == 1 && !key.scaled) return copy_kernel(key.store, size_of(key.type));
  if (key.type == DataType::kBool) return int_kernel(as_bytes(key));
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
      return decode(kHalfFormat, loaded<uint16_t>(element));
    case DataType::kFloat32:
      return loaded<float>(element);
    case DataType::kFloat64:
      return static_cast<float>(loaded<double>(element));
    case DataType::kBfloat16:
      return decode_bfloat16(loaded<uint16_t>(element));
    case DataType::kFloat8E4M3:
      return decode(kE4M3Format, loaded<uint8_t>(element));
    case DataType::kFloat8E5M2:
      return decode(kE5M2Format, loaded<uint8_t>(element));
  }
  return 0;
}

}  // namespace tutti::types
