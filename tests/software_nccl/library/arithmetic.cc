#include "tests/software_nccl/library/arithmetic.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/types/narrow_float.h"

namespace softnccl {
namespace {

namespace types = tutti::types;

/// An element of a narrow type, which is folded as a float.
template <ncclDataType_t kType>
struct Narrow {
  using Code = std::conditional_t<kType == ncclFloat16 || kType == ncclBfloat16, uint16_t, uint8_t>;
  using Value = float;
  static constexpr types::FloatFormat kFormat = kType == ncclFloat16      ? types::kHalfFormat
                                                : kType == ncclFloat8e4m3 ? types::kE4M3Format
                                                                          : types::kE5M2Format;
  static Value read(Code code) {
    return kType == ncclBfloat16 ? types::decoded_bfloat16(code) : types::decoded(kFormat, code);
  }
  static Code write(Value value) {
    return static_cast<Code>(kType == ncclBfloat16 ? types::encoded_bfloat16(value)
                                                   : types::encoded(kFormat, value));
  }
};

template <class Type>
struct Plain {
  using Code = Type;
  using Value = Type;
  static Value read(Code code) { return code; }
  static Code write(Value value) { return value; }
};

template <class Value>
Value product(Value one, Value other) {
  if constexpr (std::is_integral_v<Value>) {
    return static_cast<Value>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
  } else {
    return one * other;
  }
}

template <class Value>
Value sum(Value one, Value other) {
  if constexpr (std::is_integral_v<Value>) {
    return static_cast<Value>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
  } else {
    return one + other;
  }
}

template <class Value>
Value folded(ncclRedOp_t op, Value one, Value other) {
  if (op == ncclProd) return product(one, other);
  if (op == ncclMax) return std::max(one, other);
  if (op == ncclMin) return std::min(one, other);
  return sum(one, other);
}

template <class Element>
typename Element::Value at(const char* values, size_t index) {
  typename Element::Code code;
  std::memcpy(&code, values + index * sizeof(code), sizeof(code));
  return Element::read(code);
}

template <class Element>
void put(char* values, size_t index, typename Element::Value value) {
  const typename Element::Code code = Element::write(value);
  std::memcpy(values + index * sizeof(code), &code, sizeof(code));
}

template <class Visit>
void with_element(ncclDataType_t type, const Visit& visit) {
  switch (type) {
    case ncclInt8:
      return visit(Plain<int8_t>());
    case ncclUint8:
      return visit(Plain<uint8_t>());
    case ncclInt32:
      return visit(Plain<int32_t>());
    case ncclUint32:
      return visit(Plain<uint32_t>());
    case ncclInt64:
      return visit(Plain<int64_t>());
    case ncclUint64:
      return visit(Plain<uint64_t>());
    case ncclFloat16:
      return visit(Narrow<ncclFloat16>());
    case ncclFloat32:
      return visit(Plain<float>());
    case ncclFloat64:
      return visit(Plain<double>());
    case ncclBfloat16:
      return visit(Narrow<ncclBfloat16>());
    case ncclFloat8e4m3:
      return visit(Narrow<ncclFloat8e4m3>());
    case ncclFloat8e5m2:
      return visit(Narrow<ncclFloat8e5m2>());
    default:
      return;
  }
}

}  // namespace

size_t bytes_of(ncclDataType_t type) {
  size_t bytes = 0;
  with_element(type, [&](auto element) { bytes = sizeof(typename decltype(element)::Code); });
  return bytes;
}

void fold(ncclDataType_t type, ncclRedOp_t op, const std::vector<const char*>& sources,
          char* target, size_t count) {
  with_element(type, [&](auto element) {
    using Element = decltype(element);
    using Value = typename Element::Value;
    for (size_t i = 0; i < count; ++i) {
      Value value = at<Element>(sources[0], i);
      for (size_t rank = 1; rank < sources.size(); ++rank) {
        value = folded(op, value, at<Element>(sources[rank], i));
      }
      if (op == ncclAvg) value = static_cast<Value>(value / static_cast<Value>(sources.size()));
      put<Element>(target, i, value);
    }
  });
}

void multiply(ncclDataType_t type, const char* factor, char* values, size_t count) {
  with_element(type, [&](auto element) {
    using Element = decltype(element);
    const auto by = at<Element>(factor, 0);
    for (size_t i = 0; i < count; ++i) {
      put<Element>(values, i, product(at<Element>(values, i), by));
    }
  });
}

}  // namespace softnccl
