// Numbers of 16 bits, bfloat16 and float16, that are computed with in float.
//
// Threads: any. Errors: throws Error. Rounding: to the nearest even; NaN and infinity stay.
#pragma once

#include <cstddef>
#include <span>

#include "src/runtime/refuse.h"
#include "tutti/codecs.h"
#include "tutti/runtime/units.h"

namespace tutti::runtime {

class Halves {
 public:
  static constexpr Bytes kBytes{2};
  static bool has(tuttiDataType_t type) { return type == tuttiBfloat16 || type == tuttiFloat16; }

  explicit Halves(tuttiDataType_t type) {
    expect_success(tuttiCodecParse(type == tuttiBfloat16 ? "bf16" : "fp16", &codec_),
                   "tuttiCodecParse");
  }
  void read(const void* halves, std::span<float> values) const {
    expect_success(tuttiCodecDecode(&codec_, halves, values.size(), values.data()),
                   "the reading of halves");
  }
  /// sums[i] += halves[i].
  void add(const void* halves, std::span<float> sums) const {
    expect_success(tuttiCodecDecodeAdd(&codec_, halves, sums.size(), sums.data()),
                   "the sum of halves");
  }
  void write(std::span<const float> values, void* halves) const {
    expect_success(
        tuttiCodecEncode(&codec_, values.data(), values.size(), halves, TUTTI_CODEC_PROPAGATE),
        "the rounding to halves");
  }

 private:
  tuttiCodec_t codec_{};
};

}  // namespace tutti::runtime
