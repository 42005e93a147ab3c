// A move with encoded operands: decodes, folds in fp32 and encodes, in chunks that stay in the
// first level cache.
//
// Every operand has a form: an encoding of the plan, or the codec whose bytes are those of memory's
// elements. Where a target is encoded, the others get the decoded value, so that whoever made a
// value goes on with what the others will have of it. The result depends on the elements and on
// where codec blocks begin alone, not on the chunks.
//
// Owns: the memory of its chunks, reused and grown. Threads: one at a time.
// Errors: bytes that no encoder writes are kRemoteError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/codecs/codec.h"
#include "src/plan/plan.h"
#include "src/types/kernels.h"

namespace tutti::exec {

/// A codec and its kernels.
struct EncodedForm {
  codecs::Codec codec;
  codecs::CodecKernels kernels;
  bool is_fp32 = false;  // the bytes are the values

  uint64_t bytes(uint64_t values) const { return plan::bytes_of(codec, values); }
};

/// By encoding; 0 is that of memory. For a plan with codecs.
std::vector<EncodedForm> forms_of(const plan::Plan& plan);
/// The kernel that folds what has been decoded; null for one source that is not scaled.
types::FoldKernel sum_of_encoded(const types::FoldKey& key);

class EncodedFold {
 public:
  void begin(std::span<const EncodedForm> forms, types::FoldKernel sum);
  /// Encoded targets before the others.
  void add_target(std::byte* memory, uint8_t encoding) { targets_.push_back({memory, encoding}); }
  void add_source(const std::byte* memory, uint8_t encoding) {
    sources_.push_back({const_cast<std::byte*>(memory), encoding});
  }
  /// As FoldCall::scaled and scale.
  void scale(const uint64_t* scaled, double factor) {
    scaled_ = scaled;
    scale_ = factor;
  }
  Status run(uint64_t values);

 private:
  struct EncodedOperand {
    std::byte* memory;
    uint8_t encoding;
  };
  struct Chunk {
    uint64_t begin, count;  // values
  };

  std::byte* at(const EncodedOperand& place, const Chunk& chunk) const {
    return place.memory + forms_[place.encoding].bytes(chunk.begin);
  }
  bool is_fp32(const EncodedOperand& one) const { return forms_[one.encoding].is_fp32; }
  uint64_t chunk_values() const;
  float* room(size_t number) { return room_.data() + number * chunk_; }
  const std::byte* decoded(size_t source, const Chunk& chunk);
  void round_to_elements(std::span<float> values);
  bool run(const Chunk& chunk);
  bool store(const float* values, const Chunk& chunk);

  std::span<const EncodedForm> forms_;
  types::FoldKernel sum_ = nullptr;
  const uint64_t* scaled_ = nullptr;
  double scale_ = 1.0;
  std::vector<EncodedOperand> targets_, sources_;
  std::vector<const std::byte*> values_;  // by source
  std::vector<float> room_;               // a chunk for the result, and one for each source
  uint64_t chunk_ = 0;
};

}  // namespace tutti::exec
