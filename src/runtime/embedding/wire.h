// The type in which values travel. A rounding takes place where they leave and where they arrive.
//
// Threads: any. Errors: throws Error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "src/runtime/halves.h"

namespace tutti::runtime {

class EmbeddingWire {
 public:
  EmbeddingWire(tuttiDataType_t type, bool saturate, std::string_view way) : type_(type) {
    require(type == tuttiFloat32 || Halves::has(type), "the ", way, " wire has type ",
            static_cast<int>(type),
            "; values are fp32, so give tuttiFloat32, tuttiBfloat16 or tuttiFloat16");
    if (Halves::has(type)) halves_.emplace(type);
    saturates_ = saturate && type == tuttiFloat16;
    refuses_ = !saturate && type == tuttiFloat16;
  }

  tuttiDataType_t type() const { return type_; }
  size_t bytes() const { return halves_ ? 2 : 4; }
  /// Whether values may be refused, so that ranks must ask each other before they send.
  bool refuses() const { return refuses_; }
  bool carries(std::span<const float> values) const {
    return !refuses_ || std::all_of(values.begin(), values.end(), [](float value) {
      return std::fabs(value) <= kLargestHalf;  // false for NaN, too
    });
  }
  /// Writes values.size() * bytes(). A NaN stays one.
  void write(std::span<float> values, std::byte* target) const {
    if (saturates_) {
      for (float& value : values) {
        if (value > kLargestHalf) value = kLargestHalf;
        if (value < -kLargestHalf) value = -kLargestHalf;
      }
    }
    if (halves_) {
      halves_->write(values, target);
    } else if (!values.empty()) {
      std::memcpy(target, values.data(), values.size_bytes());
    }
  }
  void read(const std::byte* source, std::span<float> values) const {
    if (halves_) {
      halves_->read(source, values);
    } else if (!values.empty()) {
      std::memcpy(values.data(), source, values.size_bytes());
    }
  }

 private:
  static constexpr float kLargestHalf = 65504;
  tuttiDataType_t type_;
  bool saturates_ = false;
  bool refuses_ = false;
  std::optional<Halves> halves_;
};

}  // namespace tutti::runtime
