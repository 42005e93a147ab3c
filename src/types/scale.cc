// The scaled copy: what a rank brings to a scaled sum.
#include <cstring>

#include "src/types/kernels.h"

namespace tutti::types {
namespace {

template <class T>
T loaded(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

// Not by a fold kernel: those take the factor as a double, which does not hold every integer.
template <class Unsigned>
void scale_integers(const std::byte* scalar, const std::byte* source, std::byte* target,
                    size_t count) {
  const auto factor = loaded<Unsigned>(scalar);
  for (size_t at = 0; at < count * sizeof(Unsigned); at += sizeof(Unsigned)) {
    const auto product = static_cast<Unsigned>(loaded<Unsigned>(source + at) * factor);
    std::memcpy(target + at, &product, sizeof product);
  }
}

}  // namespace

void scale(DataType type, const std::byte* scalar, const std::byte* source, std::byte* target,
           size_t count) {
  if (!is_float(type)) {
    switch (size_of(type)) {
      case 1:
        return scale_integers<uint8_t>(scalar, source, target, count);
      case 2:
        return scale_integers<uint16_t>(scalar, source, target, count);
      case 4:
        return scale_integers<uint32_t>(scalar, source, target, count);
      default:
        return scale_integers<uint64_t>(scalar, source, target, count);
    }
  }
  constexpr uint64_t kFirst = 1;
  FoldCall call{&target, &source, 1, 1, count};
  call.scaled = &kFirst;
  call.scale = type == DataType::kFloat64 ? loaded<double>(scalar) : to_float(type, scalar);
  fold_kernel({.type = type, .source_count = 1, .scaled = true})(call);
}

}  // namespace tutti::types
